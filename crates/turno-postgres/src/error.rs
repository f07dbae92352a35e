//! The one place that turns the driver's errors into the contract's.

use std::error::Error as _;

use tokio_postgres::error::SqlState;
use turno_contract::{Error, ErrorKind};

/// Whether the transaction was certainly rolled back and the same call may be made again at once (rule X3).
pub(crate) fn is_retryable(code: &SqlState) -> bool {
    matches!(
        *code,
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED | SqlState::LOCK_NOT_AVAILABLE
    )
}

/// An error of a call in a transaction of our own.
pub(crate) fn from_call(error: tokio_postgres::Error) -> Error {
    map(error, ErrorKind::Busy)
}

/// An error of a call in the caller's transaction: what we would retry there loses that transaction.
pub(crate) fn in_transaction(error: tokio_postgres::Error) -> Error {
    map(error, ErrorKind::TransactionLost)
}

/// An error of making a connection: nothing was sent yet.
pub(crate) fn from_pool(error: deadpool_postgres::PoolError) -> Error {
    match error {
        deadpool_postgres::PoolError::Backend(error) => from_connect(error),
        other => Error::new(ErrorKind::Unavailable, format!("no connection: {other}")),
    }
}

/// See [`from_pool`].
pub(crate) fn from_connect(error: tokio_postgres::Error) -> Error {
    match error.as_db_error() {
        Some(_) => from_call(error),
        None => {
            Error::new(ErrorKind::Unavailable, format!("cannot connect to PostgreSQL: {}", cause(&error)))
                .with_source(error)
        }
    }
}

fn map(error: tokio_postgres::Error, rolled_back: ErrorKind) -> Error {
    let Some(db) = error.as_db_error() else {
        if error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>()) {
            let message = format!("the connection to PostgreSQL broke: {}", cause(&error));
            return Error::new(ErrorKind::Unavailable, message).with_source(error).with_outcome_unknown();
        }
        return Error::new(ErrorKind::Internal, format!("the driver: {}", cause(&error))).with_source(error);
    };
    let (kind, message) = (kind_of(db.code(), rolled_back), message_of(db));
    // 57P: the server ends the session; 08: a pooler lost the server. Either may have come after the commit.
    let unknown = kind == ErrorKind::Unavailable && matches!(&db.code().code()[..2], "57" | "08");
    let error = Error::new(kind, message).with_source(error);
    if unknown { error.with_outcome_unknown() } else { error }
}

fn kind_of(code: &SqlState, rolled_back: ErrorKind) -> ErrorKind {
    if is_retryable(code) {
        return rolled_back;
    }
    match code.code() {
        "TU001" | "TU002" | "23502" | "23514" => ErrorKind::InvalidArgument,
        "TU003" => ErrorKind::LeaseLost,
        "TU004" | "TU006" => ErrorKind::Conflict,
        "TU005" => ErrorKind::NotFound,
        "42501" => ErrorKind::PermissionDenied,
        "42883" | "42P01" | "3F000" | "42703" => ErrorKind::VersionMismatch,
        "3D000" => ErrorKind::NotFound,
        "57014" => ErrorKind::Busy,
        code => match &code[..2] {
            "28" => ErrorKind::PermissionDenied,
            "08" | "53" | "57" => ErrorKind::Unavailable,
            "22" => ErrorKind::InvalidArgument,
            // The caller's transaction was aborted before.
            "25" => ErrorKind::TransactionLost,
            _ => ErrorKind::Internal,
        },
    }
}

fn message_of(db: &tokio_postgres::error::DbError) -> String {
    match db.code().code() {
        "23514" => format!("{} (constraint {})", db.message(), db.constraint().unwrap_or("unknown")),
        "42883" | "42P01" | "3F000" | "42703" => {
            format!("no turno schema that fits this binary: {} (run turno migrate)", db.message())
        }
        code if code.starts_with("TU") => db.message().to_owned(),
        code => format!("{} (SQLSTATE {code})", db.message()),
    }
}

/// The same for a driver that gives code and message only.
#[cfg(feature = "sqlx")]
pub(crate) fn from_sqlstate(
    code: &str,
    message: String,
    source: impl std::error::Error + Send + Sync + 'static,
) -> Error {
    Error::new(kind_of(&SqlState::from_code(code), ErrorKind::TransactionLost), message).with_source(source)
}

/// The innermost reason: the driver's own text is as short as "error connecting to server".
fn cause(error: &tokio_postgres::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
