//! What a running handler knows: its job, its state, how much time is left, and whether it shall stop. It refuses to
//! settle: the job ends by what the handler returns, or by `complete_in` in the handler's own transaction.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use turno_contract::{ClaimedJob, Proof};
use uuid::Uuid;

use crate::metrics::Counters;

/// Why a handler is asked to stop. Later causes replace earlier ones only if they are stronger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CancelCause {
    /// The worker shuts down: end well within the grace, or stop now and the job is given back uncharged.
    Shutdown = 1,
    /// Somebody asked for the job to be cancelled: a success still counts, anything else cancels it (rule P2).
    Requested = 2,
    /// The attempt's time is over.
    Deadline = 3,
    /// The lease ended or was taken: somebody else may run this job by now, and no result will be accepted.
    LeaseLost = 4,
}

impl CancelCause {
    fn from_code(code: u8) -> Option<Self> {
        [CancelCause::Shutdown, CancelCause::Requested, CancelCause::Deadline, CancelCause::LeaseLost]
            .into_iter()
            .find(|cause| *cause as u8 == code)
    }
}

impl fmt::Display for CancelCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CancelCause::Shutdown => "the worker shuts down",
            CancelCause::Requested => "its cancellation was asked for",
            CancelCause::Deadline => "its time is over",
            CancelCause::LeaseLost => "its lease was lost",
        })
    }
}

/// One attempt, shared by the handler, the hooks and the control loop.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) job: ClaimedJob,
    pub(crate) worker: Arc<str>,
    pub(crate) deadline: Instant,
    pub(crate) counters: Arc<Counters>,
    cancel: CancellationToken,
    cause: AtomicU8,
}

impl Attempt {
    pub(crate) fn new(
        job: ClaimedJob,
        worker: Arc<str>,
        deadline: Instant,
        counters: Arc<Counters>,
    ) -> Arc<Self> {
        let (cancel, cause) = (CancellationToken::new(), AtomicU8::new(0));
        Arc::new(Attempt { job, worker, deadline, counters, cancel, cause })
    }

    /// The cause is set before the token trips, so that whoever sees the trip sees a cause.
    pub(crate) fn cancel(&self, cause: CancelCause) {
        self.cause.fetch_max(cause as u8, Ordering::SeqCst);
        self.cancel.cancel();
    }

    #[cfg(feature = "otel")]
    pub(crate) async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    pub(crate) fn cause(&self) -> Option<CancelCause> {
        CancelCause::from_code(self.cause.load(Ordering::SeqCst))
    }
}

/// What a handler is given beside its arguments. Cheap to clone.
pub struct Context<S = ()> {
    attempt: Arc<Attempt>,
    state: Arc<S>,
}

impl<S> Context<S> {
    pub(crate) fn new(attempt: Arc<Attempt>, state: Arc<S>) -> Self {
        Context { attempt, state }
    }

    /// The job: queue, kind, payload text, budget, and its proof of ownership.
    pub fn job(&self) -> &ClaimedJob {
        &self.attempt.job
    }

    /// The proof of ownership, which `complete_in` takes. It holds the job's secret token: do not log or pass it on.
    pub fn proof(&self) -> Proof {
        self.attempt.job.proof
    }

    /// The number of this attempt, which grows with every claim: a fence for stores that can compare (rule X1).
    pub fn attempt(&self) -> i64 {
        self.attempt.job.proof.attempt
    }

    /// The same in every attempt of this job: pass it on as the idempotency key of outside effects (rule X1).
    pub fn operation_id(&self) -> Uuid {
        self.attempt.job.operation_id
    }

    /// The trace that the job's enqueue belonged to, as the header `traceparent` says it; the same in every attempt
    /// (rule E12). With the feature `otel` the attempt's own span is the current context while the handler runs.
    pub fn traceparent(&self) -> Option<&str> {
        self.attempt.job.traceparent.as_deref()
    }

    /// The label of the worker that runs it.
    pub fn worker(&self) -> &str {
        &self.attempt.worker
    }

    /// The state that was given to the worker.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// Completes when the handler shall stop, for any [`CancelCause`]; never before.
    pub async fn cancelled(&self) {
        self.attempt.cancel.cancelled().await;
    }

    /// Whether the handler shall stop: for handlers that do not wait but look now and then.
    pub fn is_cancelled(&self) -> bool {
        self.attempt.cancel.is_cancelled()
    }

    /// Why it shall stop; `None` if it need not.
    pub fn cancel_cause(&self) -> Option<CancelCause> {
        self.attempt.cause()
    }

    /// A token that trips when the handler shall stop, for code that takes one. Tripping it oneself changes nothing
    /// for the job.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.attempt.cancel.child_token()
    }

    /// When the attempt's time is over: `max_run` after its claim.
    pub fn deadline(&self) -> Instant {
        self.attempt.deadline
    }

    /// How much time is left until the deadline; zero after it.
    pub fn remaining(&self) -> Duration {
        self.attempt.deadline.saturating_duration_since(Instant::now())
    }
}

impl<S> Clone for Context<S> {
    fn clone(&self) -> Self {
        Context { attempt: Arc::clone(&self.attempt), state: Arc::clone(&self.state) }
    }
}

impl<S> fmt::Debug for Context<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("job", &self.attempt.job.proof.job)
            .field("attempt", &self.attempt.job.proof.attempt)
            .field("kind", &self.attempt.job.kind)
            .field("cancel_cause", &self.attempt.cause())
            .finish()
    }
}
