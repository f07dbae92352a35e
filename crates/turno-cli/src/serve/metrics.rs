//! `/metrics` and `/healthz`, for `turno serve` and for `turno work --metrics`. It refuses to answer anything else.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;
use turno::prometheus::{CONTENT_TYPE, Metrics};
use turno::{BoxedBackend, ErrorKind, JobId};

use super::connections::Connections;
use super::problem::Problem;

/// How long the database has to answer to a health check.
const HEALTHY_WITHIN: Duration = Duration::from_secs(3);
/// Most connections of a port that has nothing but metrics.
const SCRAPES_MAX: u16 = 50;

/// What a scrape needs.
#[derive(Clone)]
pub struct Scraped {
    /// The database.
    pub backend: BoxedBackend,
    /// The metrics.
    pub metrics: Metrics,
}

/// Serves both on a port of their own until the process ends; answers the address.
pub async fn start(listen: SocketAddr, scraped: Scraped) -> anyhow::Result<SocketAddr> {
    let listener = bind(listen).await?;
    let address = listener.local_addr()?;
    let router = Router::new()
        .route("/metrics", get(|State(scraped): State<Scraped>| async move { scrape(&scraped, "").await }))
        .route(
            "/healthz",
            get(|State(scraped): State<Scraped>| async move { health(&scraped.backend).await }),
        )
        .fallback(|| async { Problem::not_found("there are /metrics and /healthz") })
        .with_state(scraped);
    tokio::spawn(async move {
        let (_open, closing) = watch::channel(false);
        Connections::new(SCRAPES_MAX).serve(listener, router, closing).await;
    });
    Ok(address)
}

/// Binds the port.
pub async fn bind(listen: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))
}

/// The text of a scrape, and what else there is to say in the same format.
pub async fn scrape(scraped: &Scraped, more: &str) -> Response {
    let text = scraped.metrics.render(scraped.backend.as_ref()).await + more;
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response()
}

/// What only `turno serve` says: how many claims wait for jobs over HTTP, and how many connections are open.
pub fn http(claims_waiting: usize, connections: usize) -> String {
    format!(
        "# HELP turno_http_claims_waiting Claims over HTTP that wait for a job.\n\
         # TYPE turno_http_claims_waiting gauge\nturno_http_claims_waiting {claims_waiting}\n\
         # HELP turno_http_connections Open connections over HTTP, with the one of this scrape.\n\
         # TYPE turno_http_connections gauge\nturno_http_connections {connections}\n"
    )
}

/// 200 if the database answers, 503 if not. What it answers does not matter: a role without the right is an answer.
pub async fn health(backend: &BoxedBackend) -> Response {
    let answer = tokio::time::timeout(HEALTHY_WITHIN, backend.job(JobId(0))).await;
    match answer {
        Ok(Ok(_)) => (StatusCode::OK, "ok\n").into_response(),
        Ok(Err(error)) if error.kind() == ErrorKind::PermissionDenied => {
            (StatusCode::OK, "ok\n").into_response()
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, "the database is not well");
            Problem::unavailable(error.to_string()).into_response()
        }
        Err(_) => Problem::unavailable("the database did not answer").into_response(),
    }
}
