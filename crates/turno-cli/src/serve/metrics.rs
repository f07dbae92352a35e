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
use turno::prometheus::{CONTENT_TYPE, Metrics};
use turno::{BoxedBackend, ErrorKind, JobId};

use super::problem::Problem;

/// How long the database has to answer to a health check.
const HEALTHY_WITHIN: Duration = Duration::from_secs(3);

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
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "the port of the metrics is gone");
        }
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

/// How many claims wait for jobs over HTTP.
pub fn waiting_claims(n: usize) -> String {
    format!(
        "# HELP turno_http_claims_waiting Claims over HTTP that wait for a job.\n\
         # TYPE turno_http_claims_waiting gauge\nturno_http_claims_waiting {n}\n"
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
