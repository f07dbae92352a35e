//! Ending an attempt: complete, fail, release, and what is answered.

use std::time::Duration;

use time::OffsetDateTime;

use crate::{Proof, State, Verb, limits};

/// The handler succeeded.
#[derive(Debug, Clone)]
pub struct Completion {
    /// The proof of ownership.
    pub proof: Proof,
    /// JSON text to keep with the finished job.
    pub result: Option<String>,
}

/// The handler failed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The proof of ownership.
    pub proof: Proof,
    /// Why: any text of any length (rule F6).
    pub error: String,
    /// When to try again.
    pub retry: Retry,
}

/// When a failed job is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// By the queue's exponential back-off (rule F4).
    Policy,
    /// After this long.
    In(Duration),
    /// Never: the job is `dead`.
    Never,
}

/// The job is given back uncharged.
#[derive(Debug, Clone)]
pub struct Release {
    /// The proof of ownership.
    pub proof: Proof,
    /// Due again after this long; `None` keeps the old due time.
    pub delay: Option<Duration>,
}

/// How one settle of a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SettledStatus {
    /// Accepted by this call.
    Done,
    /// The same verb with the same proof was accepted before; its recorded answer follows (rule S4).
    Already,
    /// The proof is not the current one, or another verb was settled with it; recorded in the ledger (rule S3).
    Refused,
    /// No record of such a job is left (rule S6); recorded in the ledger.
    Gone,
}

/// The answer to one settle of a batch, in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// How it ended.
    pub status: SettledStatus,
    /// The job's state after the settle that counts; for a refusal, its state now. `None` if it is gone.
    pub state: Option<State>,
    /// When it is due again, if it is to run again.
    pub run_at: Option<OffsetDateTime>,
    /// For a refusal, why, in words: who owns the job now, or as what it was settled.
    pub reason: Option<String>,
}

/// A settle that was refused inside a caller's transaction, to be reported on another connection (rule S5).
#[derive(Debug, Clone)]
pub struct Refused {
    /// The proof that was refused.
    pub proof: Proof,
    /// What was asked for.
    pub verb: Verb,
    /// The result or error that came with it.
    pub detail: Option<String>,
}

/// An error text as it is stored, and its length in bytes before that: at most [`limits::ERROR_BYTES_MAX`] bytes, cut at a
/// character boundary, with NUL, which not every engine can store, shown as U+FFFD (rule F6).
pub fn cut_error(error: &str) -> (String, i64) {
    let mut end = error.len().min(limits::ERROR_BYTES_MAX);
    while !error.is_char_boundary(end) {
        end -= 1;
    }
    let mut text = error[..end].replace('\0', "\u{FFFD}");
    // U+FFFD is longer than NUL.
    while text.len() > limits::ERROR_BYTES_MAX {
        text.pop();
    }
    (text, i64::try_from(error.len()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_cut_at_a_character_and_keep_their_length() {
        assert_eq!(cut_error("short"), ("short".to_owned(), 5));
        let long = "x".to_owned() + &"é".repeat(10_000);
        let (text, bytes) = cut_error(&long);
        assert_eq!((text.len(), bytes), (8191, 20_001));
        assert!(long.starts_with(&text));
        let (text, bytes) = cut_error(&"\0".repeat(8192));
        assert!(text.len() <= 8192 && text.chars().all(|c| c == '\u{FFFD}') && bytes == 8192);
    }
}
