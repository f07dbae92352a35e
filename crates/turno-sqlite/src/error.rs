//! The one place where the engine's errors become turno's. Refuses to hide what the engine said: it stays the source.

use rusqlite::ErrorCode;
use rusqlite::ffi;
use turno_contract::{Error, ErrorKind};

/// What a missing or foreign database file is told.
pub(crate) const NO_SCHEMA: &str = "no turno schema here: run turno migrate";

/// Maps an error of a statement. At a COMMIT use [`of_commit`].
pub(crate) fn of_engine(error: rusqlite::Error) -> Error {
    let (kind, message) = match &error {
        rusqlite::Error::SqliteFailure(failure, message) => {
            let text = message.clone().unwrap_or_else(|| failure.to_string());
            of_failure(failure, text)
        }
        rusqlite::Error::SqlInputError { error: failure, msg, .. } => of_failure(failure, msg.clone()),
        other => (ErrorKind::Internal, format!("the database answered in an unexpected way: {other}")),
    };
    Error::new(kind, message).with_source(error)
}

/// Maps an error of a COMMIT, after which a write error leaves open whether the commit is on the disk.
pub(crate) fn of_commit(error: rusqlite::Error) -> Error {
    let write_error = error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure);
    let error = of_engine(error);
    if write_error { error.with_outcome_unknown() } else { error }
}

/// Maps an error inside a caller's transaction, where being busy has a cause that the caller can remove.
pub(crate) fn in_transaction(error: Error) -> Error {
    if error.kind() != ErrorKind::Busy {
        return error;
    }
    Error::new(
        ErrorKind::Busy,
        "this transaction cannot write: somebody else is writing, or wrote since it began to read; \
         begin the transaction with BEGIN IMMEDIATE",
    )
    .with_source(error)
}

fn of_failure(failure: &ffi::Error, text: String) -> (ErrorKind, String) {
    if text.contains("no such table: turno_") || text.contains("no such table: main.turno_") {
        return (ErrorKind::VersionMismatch, NO_SCHEMA.to_owned());
    }
    match failure.code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            (ErrorKind::Busy, format!("the database is locked by another writer: {text}"))
        }
        ErrorCode::DiskFull => {
            (ErrorKind::Unavailable, format!("the disk or the database is full; nothing was written: {text}"))
        }
        ErrorCode::PermissionDenied | ErrorCode::ReadOnly | ErrorCode::AuthorizationForStatementDenied => {
            (ErrorKind::PermissionDenied, format!("the database may not be written: {text}"))
        }
        ErrorCode::CannotOpen | ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory => {
            (ErrorKind::Unavailable, format!("the database file cannot be used: {text}"))
        }
        ErrorCode::NotADatabase => {
            (ErrorKind::InvalidArgument, format!("this is no SQLite database: {text}"))
        }
        ErrorCode::DatabaseCorrupt => (ErrorKind::Internal, format!("the database file is damaged: {text}")),
        _ => (ErrorKind::Internal, format!("the database refused a statement: {text}")),
    }
}
