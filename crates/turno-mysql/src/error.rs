//! The one place that turns the driver's errors into the contract's.

use mysql_async::{DriverError, ServerError};
use turno_contract::{Error, ErrorKind};

/// The number of TU001; the other codes of the contract follow it.
const TU001: u16 = 31001;

/// Whether the transaction was certainly rolled back and the same call may be made again at once (rule X3): a lock timeout,
/// a deadlock or a conflict between the nodes of a cluster, MariaDB's deadlock over the counter of the ids (to plain SQL of
/// the caller; our routines tell it as 1213), a row that changed under MariaDB's snapshot isolation.
pub(crate) fn is_retryable(code: u16) -> bool {
    matches!(code, 1205 | 1213 | 1467 | 1020)
}

/// Whether the session can be used again after this error: a routine that the server stopped may have left its
/// transaction open.
pub(crate) fn leaves_session_clean(error: &mysql_async::Error) -> bool {
    match error {
        mysql_async::Error::Server(server) => {
            is_retryable(server.code)
                || (TU001..=TU001 + 5).contains(&server.code)
                || matches!(server.code, 3819 | 4025 | 1406)
        }
        _ => false,
    }
}

/// Whether a routine is not there or may not be called, as both are for a moment while a migration makes it anew.
pub(crate) fn may_be_migrating(error: &mysql_async::Error) -> bool {
    matches!(error, mysql_async::Error::Server(server) if matches!(server.code, 1305 | 1370))
}

/// Whether a definition says that it has been carried out: there is such a table, column or key.
pub(crate) fn was_run_before(error: &mysql_async::Error) -> bool {
    matches!(error, mysql_async::Error::Server(server) if matches!(server.code, 1050 | 1060 | 1061))
}

/// An error of a call in a transaction of our own.
pub(crate) fn from_call(error: mysql_async::Error) -> Error {
    map(error, ErrorKind::Busy)
}

/// An error of a call in the caller's transaction: what we would retry there loses that transaction.
pub(crate) fn in_transaction(error: mysql_async::Error) -> Error {
    map(error, ErrorKind::TransactionLost)
}

/// An error of making a connection: nothing was sent yet.
pub(crate) fn from_connect(error: mysql_async::Error) -> Error {
    match error {
        mysql_async::Error::Server(server) if server.code == 1049 => {
            Error::new(ErrorKind::NotFound, server.message.clone()).with_source(server)
        }
        mysql_async::Error::Server(_) => from_call(error),
        other => {
            Error::new(ErrorKind::Unavailable, format!("cannot connect to MySQL: {other}")).with_source(other)
        }
    }
}

fn map(error: mysql_async::Error, rolled_back: ErrorKind) -> Error {
    match error {
        mysql_async::Error::Server(server) => {
            let (kind, message) = (kind_of(server.code, rolled_back), message_of(&server));
            // A session or a statement that the server ends may have committed before.
            let unknown = matches!(server.code, 1053 | 1317 | 1927 | 1969 | 3024);
            let error = Error::new(kind, message).with_source(server);
            if unknown { error.with_outcome_unknown() } else { error }
        }
        mysql_async::Error::Driver(DriverError::PacketTooLarge) => {
            Error::invalid("the request is larger than the server's max_allowed_packet")
                .with_source(mysql_async::Error::Driver(DriverError::PacketTooLarge))
        }
        mysql_async::Error::Io(_) | mysql_async::Error::Driver(DriverError::ConnectionClosed) => {
            let message = format!("the connection to MySQL broke: {error}");
            Error::new(ErrorKind::Unavailable, message).with_source(error).with_outcome_unknown()
        }
        other => Error::new(ErrorKind::Internal, format!("the driver: {other}")).with_source(other),
    }
}

fn kind_of(code: u16, rolled_back: ErrorKind) -> ErrorKind {
    if is_retryable(code) {
        return rolled_back;
    }
    match code {
        31001 | 31002 => ErrorKind::InvalidArgument,
        31003 => ErrorKind::LeaseLost,
        31004 | 31006 => ErrorKind::Conflict,
        31005 => ErrorKind::NotFound,
        // A CHECK, a column's length, range, form or NULL, JSON that is none, a packet that is too large.
        3819 | 4025 | 1406 | 1264 | 1366 | 1048 | 1292 | 3140 | 3141 | 4038 | 1153 => {
            ErrorKind::InvalidArgument
        }
        1044 | 1045 | 1142 | 1143 | 1227 | 1370 | 1698 => ErrorKind::PermissionDenied,
        1305 | 1049 | 1146 | 1318 | 1054 => ErrorKind::VersionMismatch,
        1317 | 1969 | 3024 => ErrorKind::Busy,
        // Too many connections, shutdown, read-only, not part of a cluster, a statement to prepare anew, a killed connection.
        1040 | 1041 | 1047 | 1053 | 1129 | 1152 | 1203 | 1226 | 1290 | 1615 | 1792 | 1836 | 1927 => {
            ErrorKind::Unavailable
        }
        _ => ErrorKind::Internal,
    }
}

fn message_of(server: &ServerError) -> String {
    match server.code {
        TU001..=31006 => server.message.clone(),
        1305 | 1049 | 1146 | 1318 | 1054 => {
            format!("no turno schema that fits this binary: {} (run turno migrate)", server.message)
        }
        1153 => format!("{} (the server's max_allowed_packet)", server.message),
        code => format!("{} (error {code}, SQLSTATE {})", server.message, server.state),
    }
}
