//! The HTTP API below `/api/v1`: one endpoint per operation, so that a language without a database driver can enqueue,
//! work and operate. It refuses to add anything to the contract: limits, proofs and answers are the database's.

mod enqueue;
mod operate;
mod schedules;
mod settle;
mod show;
mod types;
mod work;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Serialize;
use utoipa::openapi::OpenApi;
use utoipa::{IntoResponses, Modify};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{BATCH_BYTES_MAX, BODY_BYTES_MAX};
use super::problem::Problem;
use super::state::Shared;

pub use self::show::oldest_first;

/// Where the API is.
pub const PREFIX: &str = "/api/v1";

/// What every endpoint may answer instead.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "only the OpenAPI document is made of it")]
enum Problems {
    /// The request is no HTTP, or its body no JSON, or could not be read.
    #[response(status = 400, content_type = "application/problem+json")]
    BadRequest(#[to_schema] Problem),
    /// No token, or one that is not known.
    #[response(status = 401, content_type = "application/problem+json")]
    Unauthorized(#[to_schema] Problem),
    /// The role may not do this.
    #[response(status = 403, content_type = "application/problem+json")]
    Forbidden(#[to_schema] Problem),
    /// There is no such job.
    #[response(status = 404, content_type = "application/problem+json")]
    NotFound(#[to_schema] Problem),
    /// The job's state or its key forbids it, or the lease is lost.
    #[response(status = 409, content_type = "application/problem+json")]
    Conflict(#[to_schema] Problem),
    /// The `Host` is not known to a server without a login of its own.
    #[response(status = 421, content_type = "application/problem+json")]
    Misdirected(#[to_schema] Problem),
    /// Something is outside its limits, missing or unknown.
    #[response(status = 422, content_type = "application/problem+json")]
    Invalid(#[to_schema] Problem),
    /// A bug of turno, or an error of the database that it does not know.
    #[response(status = 500, content_type = "application/problem+json")]
    Internal(#[to_schema] Problem),
    /// With `Retry-After` nothing was done, and the same request may succeed later: the database is away or busy (`unavailable`, `busy`,
    /// `transaction_lost`, `version_mismatch`), or the server is (`too_many_waiting`, `too_many_connections`). Without it the code is
    /// `outcome_unknown`: the change may have been carried out.
    #[response(status = 503, content_type = "application/problem+json")]
    Unavailable(#[to_schema] Problem),
}

/// What an endpoint with a body may answer besides. The body need not have arrived then, and the connection is closed.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "only the OpenAPI document is made of it")]
enum BodyProblems {
    /// The body did not arrive within a minute.
    #[response(status = 408, content_type = "application/problem+json")]
    Slow(#[to_schema] Problem),
    /// The body is larger than this endpoint takes: 2 MiB, or 64 MiB where it holds many jobs.
    #[response(status = 413, content_type = "application/problem+json")]
    TooLarge(#[to_schema] Problem),
    /// The body does not say that it is JSON.
    #[response(status = 415, content_type = "application/problem+json")]
    MediaType(#[to_schema] Problem),
}

struct Security;

impl Modify for Security {
    fn modify(&self, document: &mut OpenApi) {
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", super::caller::security_scheme());
    }
}

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "turno",
        description = "A durable job queue in your SQL database, over HTTP. The rules are in docs/contract.md."
    ),
    modifiers(&Security),
    security(("token" = []))
)]
struct Document;

/// All endpoints, and the document that describes them.
pub fn router() -> (Router<Shared>, OpenApi) {
    use utoipa::OpenApi as _;
    let one = OpenApiRouter::new()
        .routes(routes!(enqueue::enqueue))
        .routes(routes!(show::jobs))
        .routes(routes!(show::job))
        .routes(routes!(show::refused))
        .routes(routes!(show::stats))
        .routes(routes!(show::queues))
        .routes(routes!(schedules::schedules))
        .routes(routes!(schedules::put))
        .routes(routes!(schedules::pause))
        .routes(routes!(schedules::resume))
        .routes(routes!(schedules::remove))
        .routes(routes!(operate::cancel))
        .routes(routes!(operate::retry))
        .routes(routes!(operate::reprioritize))
        .routes(routes!(operate::pause))
        .routes(routes!(operate::resume))
        .routes(routes!(work::claim))
        .routes(routes!(work::held))
        .routes(routes!(work::heartbeat))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX));
    let many = OpenApiRouter::new()
        .routes(routes!(enqueue::enqueue_many))
        .routes(routes!(settle::complete))
        .routes(routes!(settle::fail))
        .routes(routes!(settle::release))
        .layer(DefaultBodyLimit::max(BATCH_BYTES_MAX));
    let (router, document) = OpenApiRouter::with_openapi(Document::openapi())
        .nest(PREFIX, OpenApiRouter::new().merge(one).merge(many))
        .split_for_parts();
    let text = document.to_json().unwrap_or_default();
    let serve = move || {
        let text = text.clone();
        async move { ([(header::CONTENT_TYPE, "application/json")], text) }
    };
    (router.route(&format!("{PREFIX}/openapi.json"), get(serve)), document)
}

/// A JSON answer.
fn json(status: StatusCode, value: &impl Serialize) -> Result<Response, Problem> {
    let text = serde_json::to_vec(value).map_err(unwritable)?;
    let kind = HeaderValue::from_static("application/json");
    Ok((status, [(header::CONTENT_TYPE, kind)], text).into_response())
}

fn unwritable(error: serde_json::Error) -> Problem {
    tracing::error!(%error, "an answer cannot be written");
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the answer cannot be written as JSON")
}
