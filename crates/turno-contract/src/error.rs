//! One error for every backend: a kind to decide by, a message to read, and the source.

use std::fmt;

/// What went wrong, in the terms a caller decides by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The proof of ownership is not the current one; nothing was changed (rule S3).
    LeaseLost,
    /// No such job, queue or operation.
    NotFound,
    /// The request contradicts what exists: another verb was settled, or a unique key is taken.
    Conflict,
    /// The database is locked or overloaded; the same call may succeed later.
    Busy,
    /// The caller's transaction was lost (deadlock, serialization failure) and must be rolled back (rule X3).
    TransactionLost,
    /// An argument is outside its documented limits; nothing was sent or written.
    InvalidArgument,
    /// The schema is missing, older than this binary needs, or newer than it may use.
    VersionMismatch,
    /// The database role lacks the right to call this operation.
    PermissionDenied,
    /// The server cannot be reached or the connection broke.
    Unavailable,
    /// Anything else: a bug of ours, or a database that was changed by hand.
    Internal,
}

impl ErrorKind {
    /// The name of the kind in snake case, as `--json` and logs print it.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::LeaseLost => "lease_lost",
            ErrorKind::NotFound => "not_found",
            ErrorKind::Conflict => "conflict",
            ErrorKind::Busy => "busy",
            ErrorKind::TransactionLost => "transaction_lost",
            ErrorKind::InvalidArgument => "invalid_argument",
            ErrorKind::VersionMismatch => "version_mismatch",
            ErrorKind::PermissionDenied => "permission_denied",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Internal => "internal",
        }
    }
}

type Source = Box<dyn std::error::Error + Send + Sync + 'static>;

/// The error of every operation.
pub struct Error {
    kind: ErrorKind,
    message: String,
    outcome_unknown: bool,
    source: Option<Source>,
}

/// The result of every operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of this kind; the message names what is wrong and ends without a full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), outcome_unknown: false, source: None }
    }

    /// Shorthand for [`ErrorKind::InvalidArgument`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::InvalidArgument, message)
    }

    /// Keeps the driver's own error as the source.
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Marks that the request may have been carried out although no answer came (rule E6).
    pub fn with_outcome_unknown(mut self) -> Self {
        self.outcome_unknown = true;
        self
    }

    /// What to decide by.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The message alone, without kind and source.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the database may have carried out the request all the same. An enqueue is then safe to repeat only
    /// with an idempotency key; every other operation of [`Backend`](crate::Backend) is safe to repeat as it is.
    pub fn outcome_is_unknown(&self) -> bool {
        self.outcome_unknown
    }

    /// Whether the same call may succeed if it is made again.
    pub fn is_transient(&self) -> bool {
        matches!(self.kind, ErrorKind::Busy | ErrorKind::Unavailable)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.outcome_unknown {
            f.write_str(" (the outcome is unknown: it may have been carried out)")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.kind)
            .field("message", &self.message)
            .field("outcome_unknown", &self.outcome_unknown)
            .field("source", &self.source)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source.as_ref() as _)
    }
}
