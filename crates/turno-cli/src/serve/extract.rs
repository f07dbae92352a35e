//! Bodies, queries and paths of the HTTP API, with every refusal as a problem. It refuses what it does not know: an
//! unknown field is an error, and so is a body that does not say it is JSON.

use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use tokio::sync::SemaphorePermit;
use turno::JobId;

use super::object::Object;
use super::problem::Problem;
use super::state::{LARGE_BODIES_MAX, Served};

/// Most bytes of a body that holds one job: a payload of 1 MiB, and room for the escapes of its keys.
pub const BODY_BYTES_MAX: usize = 2 << 20;
/// Most bytes of a body that holds many.
pub const BATCH_BYTES_MAX: usize = 64 << 20;
/// A body of more bytes waits for a turn.
const LARGE_BODY_BYTES: u64 = 1 << 20;
/// How long a large body waits for its turn.
const TURN_WITHIN: Duration = Duration::from_secs(30);
/// How long a body may take to arrive, once it is read.
const BODY_WITHIN: Duration = Duration::from_secs(60);
/// Most bytes of a form of a page.
pub const FORM_BYTES_MAX: usize = 16 << 10;

/// A JSON body that nobody has read yet: whoever may not send it is refused before it takes memory.
pub struct Body(Request);

/// What was read, and the turn of a large body, to be kept as long as that.
type Turn<'a, T> = (T, Option<SemaphorePermit<'a>>);

impl Body {
    /// Reads it.
    pub async fn json<T: DeserializeOwned>(self, app: &Served) -> Result<Turn<'_, T>, Problem> {
        if !is_json(self.0.headers()) {
            return Err(not_json());
        }
        let (bytes, turn) = self.bytes(app).await?;
        Ok((parse(&bytes)?, turn))
    }

    /// Reads it, if there is one.
    pub async fn json_or_default<T: DeserializeOwned + Default>(self, app: &Served) -> Result<T, Problem> {
        let said_json = is_json(self.0.headers());
        let (bytes, _turn) = self.bytes(app).await?;
        match (bytes.is_empty(), said_json) {
            (true, _) => Ok(T::default()),
            (false, true) => parse(&bytes),
            (false, false) => Err(not_json()),
        }
    }

    async fn bytes(self, app: &Served) -> Result<Turn<'_, Bytes>, Problem> {
        let turn = if may_be_large(&self.0) { Some(turn(app).await?) } else { None };
        let bytes = tokio::time::timeout(BODY_WITHIN, bytes(self.0)).await.unwrap_or_else(|_| {
            let detail = format!("the body did not arrive within {BODY_WITHIN:?}");
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "unreadable_body", detail))
        })?;
        Ok((bytes, turn))
    }
}

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        Ok(Body(request))
    }
}

/// A body that does not say how large it is may be large.
fn may_be_large(request: &Request) -> bool {
    request.body().size_hint().upper().is_none_or(|n| n > LARGE_BODY_BYTES)
}

async fn turn(app: &Served) -> Result<SemaphorePermit<'_>, Problem> {
    let turn = tokio::time::timeout(TURN_WITHIN, app.large_bodies.acquire()).await;
    turn.ok().and_then(Result::ok).ok_or_else(|| {
        let detail = format!("{LARGE_BODIES_MAX} requests with large bodies are being answered");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_waiting", detail)
    })
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

async fn bytes(request: Request) -> Result<Bytes, Problem> {
    Bytes::from_request(request, &()).await.map_err(|rejection| match rejection {
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
    let no_json = |error| {
        Problem::new(StatusCode::BAD_REQUEST, "invalid_json", format!("the body is no JSON: {error}"))
    };
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let Object(document) = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        match error.into_inner() {
            error if !error.is_data() => no_json(error),
            error if path == "." => Problem::invalid(error.to_string()),
            error => Problem::invalid(format!("{path}: {error}")),
        }
    })?;
    deserializer.end().map_err(no_json)?;
    Ok(document)
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

fn not_json() -> Problem {
    let detail = "send the body with `Content-Type: application/json`";
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail)
}
