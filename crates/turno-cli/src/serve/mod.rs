//! `turno serve`: metrics, an HTTP API and pages for people, in one process beside the database. It refuses to listen
//! beyond this machine without a login, and to be needed: everything it does, the command line and SQL do as well.

mod access;
mod api;
mod caller;
mod connections;
mod extract;
mod guard;
mod history;
pub mod metrics;
mod object;
mod pages;
mod problem;
mod sessions;
#[cfg(feature = "otel")]
mod spans;
mod state;
mod upkeep;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::request::Parts;
use axum::routing::get;
use axum::{Router, middleware};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use turno::BoxedBackend;
use turno::prometheus::Metrics;

use self::access::{Access, Proxy, Right, Role, Tokens};
use self::caller::Caller;
use self::connections::{CONNECTIONS_MAX, Connections};
use self::metrics::Scraped;
use self::problem::Problem;
use self::state::{LARGE_BODIES_MAX, Served, Shared, WAITING_CLAIMS_MAX};
use crate::args::App;
use crate::exit::{Exit, Fault};
use crate::otel;

/// How long requests that are being answered have to end after a signal.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

const HELP: &str = "\
/             pages for people: queues, running and dead jobs, one job's story
/api/v1       the same operations as the command line, for programs; the
              document is at /api/v1/openapi.json
/metrics      for Prometheus
/healthz      200 while the database answers

At a loopback address nobody has to log in, unless there is a token file.
Anywhere else a token file or a trusted proxy is needed. A token file has lines
`token role`; the roles are producer, worker, scheduler, operator, viewer, and
a token with several lines has several. The login of --db is the last word:
give the server one that may do no more than it needs.

Examples:
  turno serve --db jobs.db
  turno serve --db postgres://turno@db/app --listen 0.0.0.0:8337 --token-file /etc/turno/tokens";

/// Options of `turno serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:8337", value_name = "ADDR:PORT")]
    listen: SocketAddr,
    /// Bearer tokens and their roles, one `token role` a line
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Believe this header, in which a proxy says who its user is
    #[arg(long, value_name = "HEADER")]
    proxy_header: Option<axum::http::HeaderName>,
    /// What every user of the proxy may do; repeat for more
    #[arg(long, value_name = "ROLE", default_value = "viewer", requires = "proxy_header")]
    proxy_role: Vec<Role>,
    /// Believe the header only from this address; repeat for more. Loopback addresses if not given
    #[arg(long, value_name = "ADDR", requires = "proxy_header")]
    proxy_from: Vec<IpAddr>,
    /// Another name by which browsers and a trusted proxy may call this server; repeat for more
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Refuse every change, whoever asks
    #[arg(long)]
    read_only: bool,
    /// Answer /metrics without a token
    #[arg(long)]
    public_metrics: bool,
    /// Most open connections; one more is answered 503. The process may open about 100 files besides
    #[arg(long, default_value_t = CONNECTIONS_MAX, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    connections_max: u16,
    /// Show metrics of this queue only; repeat for more
    #[arg(long, value_name = "NAME")]
    queue: Vec<String>,
    #[command(flatten)]
    traces: otel::TraceArgs,
}

/// Serves until a signal comes.
pub async fn run(app: &mut App, args: Args) -> anyhow::Result<Exit> {
    let access = access(&args)?;
    let (backend, reads) = (app.connect().await?, app.connect().await?);
    crate::logging::start("warn", None);
    let traces = otel::start(&args.traces)?;
    let listener = metrics::bind(args.listen).await?;
    let url = format!("http://{}", listener.local_addr()?);
    let (closing, closed) = watch::channel(false);
    let served = served((backend, reads), access, &args, closed);
    let watching = tokio::spawn(history::watch(Arc::clone(&served)));
    let connections = Arc::clone(&served.connections);
    let router = router(served);
    app.output.either(&serde_json::json!({ "listening": url }), |_| format!("listening on {url}"))?;
    app.output.flush()?;

    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let asked = closing.subscribe();
    let mut server = tokio::spawn(async move { connections.serve(listener, router, asked).await });
    let exit = tokio::select! {
        ended = &mut server => { ended?; Exit::Internal }
        _ = terminate.recv() => Exit::Terminated,
        _ = interrupt.recv() => Exit::Interrupted,
    };
    closing.send_replace(true);
    watching.abort();
    if tokio::time::timeout(SHUTDOWN_GRACE, &mut server).await.is_err() {
        server.abort();
    }
    traces.end().await;
    Ok(exit)
}

fn served(
    (backend, reads): (BoxedBackend, BoxedBackend),
    access: Access,
    args: &Args,
    closing: watch::Receiver<bool>,
) -> Shared {
    let metrics = Metrics::new();
    let metrics = if args.queue.is_empty() { metrics } else { metrics.queues(&args.queue) };
    Arc::new(Served {
        backend,
        reads,
        metrics,
        access,
        sessions: sessions::Sessions::new(),
        history: history::History::default(),
        upkeep: upkeep::Upkeep::new(),
        waiting: Semaphore::new(WAITING_CLAIMS_MAX),
        large_bodies: Semaphore::new(LARGE_BODIES_MAX),
        connections: Arc::new(Connections::new(args.connections_max)),
        public_metrics: args.public_metrics,
        closing,
    })
}

/// Who may do what; an error if that would be anybody from anywhere.
fn access(args: &Args) -> anyhow::Result<Access> {
    let tokens = args.token_file.as_deref().map(Tokens::read).transpose()?;
    let loopback = || vec![IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
    let proxy = args.proxy_header.clone().map(|header| Proxy {
        header,
        roles: args.proxy_role.clone(),
        from: if args.proxy_from.is_empty() { loopback() } else { args.proxy_from.clone() },
    });
    for queue in &args.queue {
        turno::check_name("queue", queue)?;
    }
    let needs_login = tokens.is_some() || proxy.is_some();
    let ip = args.listen.ip();
    if !needs_login && !ip.is_loopback() {
        let message = format!("{ip} is no loopback address: give --token-file or --proxy-header");
        return Err(Fault::usage(message).into());
    }
    let mut hosts = vec!["localhost".into(), "127.0.0.1".into(), "[::1]".into(), shown_in_a_url(ip)];
    hosts.extend(args.host.iter().cloned());
    Ok(Access { tokens, proxy, is_open: !needs_login, hosts, read_only: args.read_only })
}

fn shown_in_a_url(ip: IpAddr) -> String {
    if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() }
}

fn router(app: Shared) -> Router {
    let (api, _) = api::router();
    #[cfg(feature = "otel")]
    let api = api.layer(middleware::from_fn(spans::traced));
    let scrape = |State(app): State<Shared>, parts: Parts| async move {
        if !app.public_metrics {
            let mut parts = parts;
            let caller =
                <Caller as axum::extract::FromRequestParts<Shared>>::from_request_parts(&mut parts, &app);
            caller.await?.need(Right::Stats)?;
        }
        let scraped = Scraped { backend: app.reads.clone(), metrics: app.metrics.clone() };
        let waiting = WAITING_CLAIMS_MAX.saturating_sub(app.waiting.available_permits());
        Ok::<_, Problem>(metrics::scrape(&scraped, &metrics::http(waiting, app.connections.open())).await)
    };
    let health = |State(app): State<Shared>| async move { metrics::health(&app.reads).await };
    let router = Router::new()
        .merge(api)
        .merge(pages::router())
        .route("/metrics", get(scrape))
        .route("/healthz", get(health))
        .fallback(guard::not_found)
        .method_not_allowed_fallback(guard::method_not_allowed)
        .layer(middleware::from_fn_with_state(Arc::clone(&app), guard::guard));
    guard::with_headers(router).with_state(app)
}
