//! From how a handler ended to what the database is told: the table of all cases. It refuses to send anything.

use std::any::Any;
use std::time::Duration;

use tokio::task::JoinError;
use turno_contract::{ClaimedJob, Retry, limits};

use crate::RetryPolicy;
use crate::context::CancelCause;
use crate::hook::JobResult;
use crate::job_error::Verdict as Asked;

/// What the database is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Complete(Option<String>),
    Fail(String, Retry),
    Release(Option<Duration>),
    /// Nothing: the lease is lost and there is no result, or the verdict has been sent before.
    Silence,
}

/// What is known when the task has ended.
pub(super) struct Ending<'a> {
    pub(super) job: &'a ClaimedJob,
    pub(super) cause: Option<CancelCause>,
    /// The deadline's verdict has been sent already.
    pub(super) already_sent: bool,
    /// Aborted at the end of this grace.
    pub(super) gave_up_after: Option<Duration>,
    pub(super) policy: Option<&'a RetryPolicy>,
}

impl Ending<'_> {
    /// The verdict on a task that ended by itself or was aborted. The second value says that it panicked.
    pub(super) fn outcome(
        &self,
        result: Result<JobResult, JoinError>,
    ) -> (Outcome, Option<Box<dyn Any + Send>>) {
        match result {
            // A result is sent whatever has happened: if it is late, it lands in the ledger.
            Ok(Ok(result)) => (Outcome::Complete(result), None),
            Ok(Err(_)) if self.already_sent => (Outcome::Silence, None),
            Ok(Err(error)) => {
                let (text, asked) = error.into_parts();
                (self.failure(text, asked), None)
            }
            Err(error) if error.is_panic() => {
                let payload = error.into_panic();
                let text = format!("panicked: {}", panic_text(payload.as_ref()));
                let outcome = if self.already_sent {
                    Outcome::Silence
                } else {
                    Outcome::Fail(text, self.retry(Retry::Policy))
                };
                (outcome, Some(payload))
            }
            Err(_) => (self.aborted(), None),
        }
    }

    fn failure(&self, text: String, asked: Asked) -> Outcome {
        match (self.cause, asked) {
            (_, Asked::Release(delay)) => Outcome::Release(delay.map(|delay| delay.min(limits::DELAY_MAX))),
            (Some(CancelCause::Shutdown), Asked::Fail(Retry::Policy | Retry::In(_))) => {
                Outcome::Release(None)
            }
            (Some(CancelCause::Deadline), Asked::Fail(retry)) => {
                Outcome::Fail(format!("{}: {text}", timed_out(self.job.max_run)), self.retry(retry))
            }
            (Some(CancelCause::LeaseLost), Asked::Fail(retry)) => {
                Outcome::Fail(format!("its lease was lost: {text}"), self.retry(retry))
            }
            (_, Asked::Fail(retry)) => Outcome::Fail(text, self.retry(retry)),
        }
    }

    fn aborted(&self) -> Outcome {
        match (self.already_sent, self.cause, self.gave_up_after) {
            (true, ..) | (_, Some(CancelCause::LeaseLost), _) => Outcome::Silence,
            (_, _, Some(grace)) => {
                let text =
                    format!("aborted: the worker shut down and the handler did not stop within {grace:?}");
                Outcome::Fail(text, Retry::In(Duration::ZERO))
            }
            // Nobody here aborted it: the application's runtime is going away.
            (_, _, None) => Outcome::Release(None),
        }
    }

    fn retry(&self, asked: Retry) -> Retry {
        match (asked, self.policy) {
            (Retry::Policy, Some(policy)) => Retry::In(policy.delay(self.job.failures.saturating_add(1))),
            (Retry::In(delay), _) => Retry::In(delay.min(limits::DELAY_MAX)),
            (asked, _) => asked,
        }
    }

    /// The verdict of the deadline itself, for a handler that did not stop.
    pub(super) fn timeout(&self) -> Outcome {
        Outcome::Fail(timed_out(self.job.max_run), self.retry(Retry::Policy))
    }
}

fn timed_out(max_run: Duration) -> String {
    format!("timed out after {max_run:?}")
}

/// What a panic said, if it was text.
pub(super) fn panic_text(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        return (*text).to_owned();
    }
    payload.downcast_ref::<String>().cloned().unwrap_or_else(|| "with a payload that is no text".into())
}
