//! The one place that turns the driver's errors into the contract's.

use tiberius::error::{Error as Driver, TokenError};
use turno_contract::{Error, ErrorKind};

/// Whether the transaction was certainly rolled back, or never begun, and the same call may be made again at once (rule
/// X3): a deadlock, a lock timeout, no more locks, a dirty look at what moved, a conflict of row versions, a key of ours that could not be locked, and
/// what Azure SQL answers before it does anything.
pub(crate) fn is_retryable(error: &Driver) -> bool {
    matches!(
        error.code(),
        Some(601 | 1205 | 1222 | 1204 | 3960 | 53107 | 10928 | 10929 | 40501 | 40613 | 49918..=49920)
    )
}

/// An error of a call in a transaction of our own.
pub(crate) fn from_call(error: Driver) -> Error {
    map(error, ErrorKind::Busy)
}

/// An error of a call in the caller's transaction: what we would retry there loses that transaction.
pub(crate) fn in_transaction(error: Driver) -> Error {
    map(error, ErrorKind::TransactionLost)
}

/// An error of making a connection: nothing was sent yet.
pub(crate) fn from_connect(error: Driver) -> Error {
    match &error {
        Driver::Server(server) if server.code() == 4060 => {
            Error::new(ErrorKind::NotFound, server.message().to_owned()).with_source(error)
        }
        Driver::Server(_) if is_retryable(&error) => {
            Error::new(ErrorKind::Unavailable, format!("the server is not ready: {error}")).with_source(error)
        }
        Driver::Server(_) => from_call(error),
        _ => Error::new(ErrorKind::Unavailable, format!("cannot connect to SQL Server: {error}"))
            .with_source(error),
    }
}

fn map(error: Driver, rolled_back: ErrorKind) -> Error {
    let retryable = is_retryable(&error);
    match &error {
        Driver::Server(server) => {
            let kind = if retryable { rolled_back } else { kind_of(server.code()) };
            let (message, unknown) = (message_of(server), may_have_committed(server.code()));
            let error = Error::new(kind, message).with_source(error);
            if unknown { error.with_outcome_unknown() } else { error }
        }
        Driver::Io { .. } | Driver::Tls(_) | Driver::Routing { .. } => {
            let message = format!("the connection to SQL Server broke: {error}");
            Error::new(ErrorKind::Unavailable, message).with_source(error).with_outcome_unknown()
        }
        // What a broken connection leaves behind is often half a message; nobody can tell how far the call went.
        Driver::Protocol(_) => Error::new(ErrorKind::Unavailable, format!("the driver: {error}"))
            .with_source(error)
            .with_outcome_unknown(),
        _ => Error::new(ErrorKind::Internal, format!("the driver: {error}")).with_source(error),
    }
}

/// A session or a statement that the server ends may have committed before.
fn may_have_committed(code: u32) -> bool {
    matches!(code, 596 | 6005 | 40197 | 40143 | 40540)
}

fn kind_of(code: u32) -> ErrorKind {
    match code {
        53101 | 53102 => ErrorKind::InvalidArgument,
        53103 => ErrorKind::LeaseLost,
        53104 | 53106 => ErrorKind::Conflict,
        53105 => ErrorKind::NotFound,
        // A CHECK, NULL in a column without, a text too long for one, a number or UUID that is none, JSON that is none.
        547 | 515 | 2628 | 8152 | 220 | 241 | 245 | 8114 | 8115 | 8169 | 13609 => ErrorKind::InvalidArgument,
        229 | 230 | 262 | 297 | 300 | 916 | 18452 | 18456 => ErrorKind::PermissionDenied,
        // No such procedure, table, parameter or function.
        201 | 208 | 2812 | 4121 | 8144 | 8145 | 8146 => ErrorKind::VersionMismatch,
        // No transaction that could be committed: an error rolled it back, or doomed it.
        3902 | 3903 | 3930 | 3998 | 3951 => ErrorKind::TransactionLost,
        // Memory, space for versions or for the log.
        701 | 802 | 8645 | 8651 | 8657 | 8628 | 9002 | 3958 | 3967 => ErrorKind::Busy,
        // No connection or none for us yet, shutdown, a killed session, a database that is read-only, restoring or not on this node, Azure's moves.
        596 | 904 | 921 | 922 | 923 | 924 | 926 | 927 | 942 | 945 | 952 | 976 | 978 | 979 | 983 | 3906
        | 4221 | 6005 | 17142 | 17809 | 18401 | 18451 | 18461 | 40143 | 40197 | 40540 | 40613 => {
            ErrorKind::Unavailable
        }
        _ => ErrorKind::Internal,
    }
}

fn message_of(server: &TokenError) -> String {
    match server.code() {
        53101..=53107 => server.message().to_owned(),
        201 | 208 | 2812 | 4121 | 8144 | 8145 | 8146 => {
            format!("no turno schema that fits this binary: {} (run turno migrate)", server.message())
        }
        code => format!("{} (error {code}, state {})", server.message(), server.state()),
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    #[test]
    fn a_broken_connection_leaves_the_outcome_unknown() {
        let broken = || Driver::Io { kind: std::io::ErrorKind::ConnectionReset, message: "reset".into() };
        for error in
            [from_call(broken()), in_transaction(broken()), from_call(Driver::Protocol(Cow::from("eof")))]
        {
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.outcome_is_unknown(), "{error:?}");
        }
        assert!(!from_connect(broken()).outcome_is_unknown(), "nothing was sent yet");
    }

    /// Rule X3. The table of codes is what the documents of the server say; the numbers of our own are in docs/contract.md.
    #[test]
    fn every_code_has_its_kind() {
        let table = [
            (53101, ErrorKind::InvalidArgument),
            (53102, ErrorKind::InvalidArgument),
            (53103, ErrorKind::LeaseLost),
            (53104, ErrorKind::Conflict),
            (53105, ErrorKind::NotFound),
            (53106, ErrorKind::Conflict),
            (547, ErrorKind::InvalidArgument),
            (229, ErrorKind::PermissionDenied),
            (2812, ErrorKind::VersionMismatch),
            (3930, ErrorKind::TransactionLost),
            (17809, ErrorKind::Unavailable),
            (40197, ErrorKind::Unavailable),
            (50000, ErrorKind::Internal),
        ];
        for (code, kind) in table {
            assert_eq!(kind_of(code), kind, "{code}");
        }
        assert!(may_have_committed(40197) && may_have_committed(596) && !may_have_committed(1205));
    }
}
