//! Hooks: code around every job, and the events of the worker's life. They refuse to change what the queue promises:
//! a hook that panics costs its own job or event, never the worker.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use turno_contract::{ClaimedJob, LeaseLoss, Proof, SettledStatus, State, Verb};

use crate::{Context, JobError};

/// How a handler ended, as hooks see it: JSON text or nothing, or its failure.
pub type JobResult = Result<Option<String>, JobError>;

/// What an application adds around every job of a worker. Every method has a default that does nothing.
#[async_trait]
pub trait Hook: Send + Sync + 'static {
    /// Runs before the handler, in the job's own task and span. An error ends the job as the handler's would.
    async fn before(&self, context: &Context) -> Result<(), JobError> {
        let _ = context;
        Ok(())
    }

    /// Runs after the handler returned. Not after a panic, a timeout or an abort: [`Event::Settled`] tells those.
    async fn after(&self, context: &Context, result: &JobResult) {
        let _ = (context, result);
    }

    /// Runs around the handler: must call `next.run()` once, and may change what it answers.
    async fn around(&self, context: &Context, next: Next) -> JobResult {
        self.before(context).await?;
        let result = next.run().await;
        self.after(context, &result).await;
        result
    }

    /// Hears of the worker's events, on its control thread: must return at once and never block.
    fn event(&self, at: Instant, event: &Event<'_>) {
        let _ = (at, event);
    }
}

/// The rest of what runs for a job: further hooks, then the handler.
pub struct Next {
    pub(crate) future: BoxFuture<'static, JobResult>,
}

impl Next {
    /// Runs it.
    pub async fn run(self) -> JobResult {
        self.future.await
    }
}

/// Something that happened to the worker.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A claim returned jobs.
    Claimed {
        /// The jobs.
        jobs: &'a [ClaimedJob],
        /// How long the call took.
        took: Duration,
    },
    /// A claim returned nothing.
    ClaimEmpty {
        /// How long the call took.
        took: Duration,
        /// When the next scheduled job is due, if one is known.
        next_due_in: Option<Duration>,
    },
    /// A handler starts.
    Started {
        /// The attempt's proof.
        proof: Proof,
        /// The job's kind.
        kind: &'a str,
    },
    /// A handler's task has ended, and its verdict waits to be sent.
    Ended {
        /// The attempt's proof.
        proof: Proof,
        /// How long it ran.
        ran: Duration,
    },
    /// The database answered to a settle.
    Settled {
        /// The attempt's proof.
        proof: Proof,
        /// What was asked for.
        verb: Verb,
        /// How that ended.
        status: SettledStatus,
        /// The job's state now.
        state: Option<State>,
        /// How long the verdict waited and travelled.
        took: Duration,
    },
    /// The lease of a job ended without being renewed, or the database says that it is lost.
    LeaseLost {
        /// The attempt's proof.
        proof: Proof,
    },
    /// A heartbeat was answered.
    Heartbeat {
        /// How many leases it renewed.
        held: usize,
        /// How many it was sent for.
        sent: usize,
        /// How long the call took.
        took: Duration,
        /// How long after it was due it was sent.
        late: Duration,
    },
    /// The reaper ended leases of whichever workers.
    Reaped {
        /// The leases.
        jobs: &'a [LeaseLoss],
    },
    /// A call to the database failed and will be made again.
    TransientError {
        /// The operation.
        operation: &'static str,
        /// What it answered.
        error: &'a turno_contract::Error,
    },
}
