//! How a handler says that its job did not succeed, and what shall become of it.

use std::fmt;
use std::time::Duration;

use turno_contract::Retry;

/// The failure of a handler. Every `std::error::Error` becomes one by `?`, with the messages of its sources; for
/// anything else that can be shown (`anyhow::Error`, a text) there is [`JobError::new`].
///
/// It is no `std::error::Error` itself, because then the conversion from all of them could not exist.
pub struct JobError {
    text: String,
    verdict: Verdict,
}

/// What shall become of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The attempt is charged.
    Fail(Retry),
    /// The attempt is not charged.
    Release(Option<Duration>),
}

impl JobError {
    /// A failure with this text; the job is tried again by its policy. Use it as `.map_err(JobError::new)`.
    pub fn new(error: impl fmt::Display) -> Self {
        // The alternate form is where `anyhow` shows the whole chain; for others it is the plain text.
        JobError { text: format!("{error:#}"), verdict: Verdict::Fail(Retry::Policy) }
    }

    /// Not now: the job is given back uncharged and is due again after this long. At most 365 days.
    pub fn snooze(delay: Duration) -> Self {
        JobError { text: format!("snoozed for {delay:?}"), verdict: Verdict::Release(Some(delay)) }
    }

    /// Not here: the job is given back uncharged and keeps its place, so that another worker may take it at once.
    pub fn release() -> Self {
        JobError { text: "given back by its handler".into(), verdict: Verdict::Release(None) }
    }

    /// The same failure, tried again after this long instead of by the policy. At most 365 days.
    pub fn retry_in(mut self, delay: Duration) -> Self {
        self.verdict = Verdict::Fail(Retry::In(delay));
        self
    }

    /// The same failure, never tried again: the job is dead.
    pub fn never(mut self) -> Self {
        self.verdict = Verdict::Fail(Retry::Never);
        self
    }

    /// The text that will be recorded.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the attempt will be charged to the job's failure budget.
    pub fn is_charged(&self) -> bool {
        matches!(self.verdict, Verdict::Fail(_))
    }

    pub(crate) fn into_parts(self) -> (String, Verdict) {
        (self.text, self.verdict)
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for JobError {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Many errors show their source in their own text already.
            if !text.contains(&cause_text) {
                text.push_str(": ");
                text.push_str(&cause_text);
            }
            source = cause.source();
        }
        JobError::new(text)
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobError").field("text", &self.text).field("verdict", &self.verdict).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_the_texts_of_its_sources() {
        fn read() -> Result<(), JobError> {
            let source = turno_contract::Error::invalid("the inner cause");
            Err(turno_contract::Error::invalid("the outer text").with_source(source))?
        }
        assert_eq!(read().unwrap_err().text(), "the outer text: the inner cause");
    }

    #[test]
    fn the_verdict_is_what_was_asked_for_last() {
        let second = Duration::from_secs(1);
        assert_eq!(JobError::new("x").verdict, Verdict::Fail(Retry::Policy));
        assert_eq!(JobError::new("x").retry_in(second).verdict, Verdict::Fail(Retry::In(second)));
        assert_eq!(JobError::new("x").retry_in(second).never().verdict, Verdict::Fail(Retry::Never));
        assert!(!JobError::snooze(second).is_charged());
        assert!(JobError::snooze(second).never().is_charged());
    }
}
