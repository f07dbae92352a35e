//! Claiming jobs and keeping them: what a worker asks for and what it is told.

use std::time::Duration;

use time::OffsetDateTime;
use uuid::Uuid;

use crate::payload::check_name;
use crate::{Error, JobId, Result, Token, limits};

/// The proof of ownership: all three must be the current ones (rule O2). `attempt` is the fence, `token` the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Proof {
    /// The job.
    pub job: JobId,
    /// Its attempt, which grows by one with every claim and never goes back.
    pub attempt: i64,
    /// The token of the claim.
    pub token: Token,
}

/// A request for jobs.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// The queues, served in this order.
    pub queues: Vec<String>,
    /// A label for people; never proof of anything (rule O1).
    pub worker: String,
    /// At most this many jobs, 1..=[`limits::CLAIM_JOBS_MAX`].
    pub limit: u32,
    /// How long the jobs are held without a heartbeat.
    pub lease: Duration,
    /// A new token. The same token again returns what it already holds and takes no more (rule C5).
    pub token: Token,
    /// How many of the jobs, best first, start at once; the rest is buffered and not charged if its lease expires
    /// before a heartbeat reports the start (rule F2). `None`: all of them.
    pub start: Option<u32>,
    /// Per queue, the rank where this worker's last claim ended: look only from there on (rule C8). Empty, or `None`
    /// for a queue: from the front.
    pub from_ranks: Vec<Option<i64>>,
}

impl ClaimRequest {
    /// A request for one job of one queue with a new token and a lease of 30 s.
    pub fn one(queue: impl Into<String>, worker: impl Into<String>) -> Self {
        ClaimRequest {
            queues: vec![queue.into()],
            worker: worker.into(),
            limit: 1,
            lease: Duration::from_secs(30),
            token: Token::random(),
            start: None,
            from_ranks: Vec::new(),
        }
    }

    /// The same request for up to `limit` jobs.
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// The same request with another lease.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Whether it looks at everything from the front, and then also after expired leases if it comes back short (rule C8).
    pub fn is_sweep(&self) -> bool {
        self.from_ranks.iter().all(Option::is_none)
    }

    /// Errors with `InvalidArgument` that names the field outside its limits.
    pub fn check(&self) -> Result<()> {
        if self.queues.is_empty() || self.queues.len() > limits::CLAIM_QUEUES_MAX {
            let (n, max) = (self.queues.len(), limits::CLAIM_QUEUES_MAX);
            return Err(Error::invalid(format!("a claim names 1..={max} queues, not {n}")));
        }
        for queue in &self.queues {
            check_name("queue", queue)?;
        }
        check_name("worker", &self.worker)?;
        if !(1..=limits::CLAIM_JOBS_MAX).contains(&self.limit) {
            let (n, max) = (self.limit, limits::CLAIM_JOBS_MAX);
            return Err(Error::invalid(format!("a claim takes 1..={max} jobs, not {n}")));
        }
        if !self.from_ranks.is_empty() && self.from_ranks.len() != self.queues.len() {
            return Err(Error::invalid("from_ranks has another length than queues"));
        }
        check_lease(self.lease)
    }
}

/// Errors with `InvalidArgument` if the lease is not between 1 ms and 1 day.
pub(crate) fn check_lease(lease: Duration) -> Result<()> {
    if (limits::LEASE_MIN..=limits::LEASE_MAX).contains(&lease) {
        return Ok(());
    }
    Err(Error::invalid(format!("lease {lease:?} is not between 1 ms and 1 day")))
}

/// The answer to a claim.
#[derive(Debug, Clone, Default)]
pub struct Claimed {
    /// Up to `limit` jobs, best first within each queue.
    pub jobs: Vec<ClaimedJob>,
    /// How long until the next scheduled job of these queues is due; known when the claim came back short.
    pub next_due_in: Option<Duration>,
}

/// A job under a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedJob {
    /// What every heartbeat and settle of this job must show.
    pub proof: Proof,
    /// Its queue.
    pub queue: String,
    /// Its kind, which names the handler.
    pub kind: String,
    /// Its payload, the same text that was enqueued. Text that came by plain SQL may be no JSON at all (rule E10).
    pub payload: String,
    /// Its priority.
    pub priority: i32,
    /// Failures charged so far.
    pub failures: u32,
    /// The failure budget.
    pub max_attempts: u32,
    /// The same in every attempt of this job: for idempotent effects (rule X1).
    pub operation_id: Uuid,
    /// When it was due.
    pub run_at: OffsetDateTime,
    /// When it was enqueued.
    pub created_at: OffsetDateTime,
    /// When this attempt was claimed.
    pub claimed_at: OffsetDateTime,
    /// When the lease ends unless a heartbeat extends it.
    pub lease_until: OffsetDateTime,
    /// How long this attempt may take, counted from the claim (rule H3).
    pub max_run: Duration,
    /// Its place in the queue's order; the hint for the next claim (rule C8).
    pub rank: i64,
    /// The trace that its enqueue belonged to, the same in every attempt (rule E12). Text that came by plain SQL may be anything.
    pub traceparent: Option<String>,
}

/// One lease to keep.
#[derive(Debug, Clone, Copy)]
pub struct Beat {
    /// The proof of ownership.
    pub proof: Proof,
    /// Whether the handler has started; reports a buffered job's start (rule H4).
    pub started: bool,
}

/// What became of one lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeartbeatAnswer {
    /// Kept until this instant of the database's clock, which is `held_for` from the database's now.
    Held {
        /// When the lease ends.
        until: OffsetDateTime,
        /// The same, as a duration.
        held_for: Duration,
        /// Whether somebody asked for the job to be cancelled (rule P2).
        cancel_requested: bool,
    },
    /// Somebody's open transaction holds the row: not extended, ask again soon.
    Busy,
    /// The proof is no longer the current one.
    Lost,
    /// The job was settled with this very proof.
    Finished,
}
