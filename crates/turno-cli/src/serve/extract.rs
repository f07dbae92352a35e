//! Bodies, queries and paths of the HTTP API, with every refusal as a problem. It refuses what it does not know: an
//! unknown field is an error, and so is a body that does not say it is JSON.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use turno::JobId;

use super::problem::Problem;

/// Most bytes of a body that holds one job: a payload of 1 MiB, and room for the escapes of its keys.
pub const BODY_BYTES_MAX: usize = 2 << 20;
/// Most bytes of a body that holds many.
pub const BATCH_BYTES_MAX: usize = 64 << 20;
/// Most bytes of a form of a page.
pub const FORM_BYTES_MAX: usize = 16 << 10;

/// A JSON body.
pub struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(not_json());
        }
        parse(&bytes(request, state).await?).map(Body)
    }
}

/// A JSON body, or none at all.
pub struct Optional<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for Optional<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let said_json = is_json(request.headers());
        let bytes = bytes(request, state).await?;
        match (bytes.is_empty(), said_json) {
            (true, _) => Ok(Optional(T::default())),
            (false, true) => parse(&bytes).map(Optional),
            (false, false) => Err(not_json()),
        }
    }
}

/// The parameters of a query.
pub struct Query<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match axum::extract::Query::<T>::from_request_parts(parts, state).await {
            Ok(query) => Ok(Query(query.0)),
            Err(rejection) => Err(Problem::invalid(rejection.body_text())),
        }
    }
}

/// The number of a job in the path.
pub struct Id(pub JobId);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Name(text) = Name::from_request_parts(parts, state).await?;
        let digits = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
        match text.parse() {
            Ok(id) if digits => Ok(Id(id)),
            _ => Err(Problem::invalid(format!("{text:?} is not a job id"))),
        }
    }
}

/// A name in the path.
pub struct Name(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(text)) => Ok(Name(text)),
            Err(rejection) => Err(Problem::invalid(rejection.body_text())),
        }
    }
}

async fn bytes<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Problem> {
    Bytes::from_request(request, state).await.map_err(|rejection| match rejection {
        BytesRejection::FailedToBufferBody(error) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let detail = format!(
                "the body is larger than this endpoint takes: {BODY_BYTES_MAX} bytes, or {BATCH_BYTES_MAX} for many jobs"
            );
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail)
        }
        other => Problem::new(StatusCode::BAD_REQUEST, "unreadable_body", other.body_text()),
    })
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => Problem::invalid(error.to_string()),
        _ => Problem::new(StatusCode::BAD_REQUEST, "invalid_json", format!("the body is no JSON: {error}")),
    })
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

fn not_json() -> Problem {
    let detail = "send the body with `Content-Type: application/json`";
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail)
}
