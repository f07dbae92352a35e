//! Errors over HTTP: a problem document (RFC 9457) with a stable code for each. It refuses to answer an error in any
//! other form, and to show what an error of the database says about its URL.

use axum::Json;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use turno::{Error, ErrorKind};
use utoipa::ToSchema;

/// After how many seconds a request may be made again when the database is away.
const RETRY_AFTER_S: &str = "1";
/// The code of a change that may have been carried out: it has no `Retry-After` (rule E6).
const OUTCOME_UNKNOWN: &str = "outcome_unknown";

/// An error as a problem document.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Problem {
    /// Always `about:blank`: the code says more.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The status in words.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What went wrong, as one stable word.
    #[schema(example = "not_found")]
    code: &'static str,
    /// What went wrong, for people.
    detail: String,
}

impl Problem {
    /// An error with this status and code.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error");
        Problem { kind: "about:blank", title, status: status.as_u16(), code, detail: detail.into() }
    }

    /// The request is outside the documented limits.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_argument", detail)
    }

    /// There is no such thing.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// Nobody said who asks, or what they said is not known.
    pub fn unauthorized(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    }

    /// Whoever asks may not do this.
    pub fn forbidden(code: &'static str, detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::FORBIDDEN, code, detail)
    }

    /// The database did not answer.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
    }

    /// A question failed: to ask again changes nothing, whatever became of the first.
    pub fn of_question(error: Error) -> Self {
        Problem::of(&error, error.kind().as_str(), error.message())
    }

    fn of(error: &Error, code: &'static str, detail: impl Into<String>) -> Self {
        let status = match error.kind() {
            ErrorKind::LeaseLost | ErrorKind::Conflict => StatusCode::CONFLICT,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::InvalidArgument => StatusCode::UNPROCESSABLE_ENTITY,
            ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
            ErrorKind::Busy | ErrorKind::TransactionLost | ErrorKind::Unavailable => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            ErrorKind::VersionMismatch => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if status.is_server_error() {
            tracing::warn!(%error, source = ?std::error::Error::source(error), "a request failed");
        }
        Problem::new(status, code, detail)
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The status in words.
    pub fn title(&self) -> &'static str {
        self.title
    }

    /// What went wrong, for people.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The headers that go with it.
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        match self.status() {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"turno\""));
            }
            StatusCode::SERVICE_UNAVAILABLE if self.code != OUTCOME_UNKNOWN => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
            }
            _ => {}
        }
        headers
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let code = if error.outcome_is_unknown() { OUTCOME_UNKNOWN } else { error.kind().as_str() };
        Problem::of(&error, code, error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, headers) = (self.status(), self.headers());
        let mut response = (status, headers, Json(&self)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        // For whoever shows it in another form.
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_carried_out_invites_nobody_to_repeat_it() {
        let error = || Error::new(ErrorKind::Unavailable, "the answer was lost");
        let (known, unknown) = (Problem::from(error()), Problem::from(error().with_outcome_unknown()));
        assert_eq!((known.code, unknown.code), ("unavailable", "outcome_unknown"));
        assert!(known.headers().contains_key(header::RETRY_AFTER));
        assert!(!unknown.headers().contains_key(header::RETRY_AFTER));
        assert_eq!(unknown.status(), StatusCode::SERVICE_UNAVAILABLE);
        let question = Problem::of_question(error().with_outcome_unknown());
        assert!(question.code == "unavailable" && question.headers().contains_key(header::RETRY_AFTER));
    }
}
