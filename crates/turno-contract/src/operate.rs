//! What operators and schedulers ask for, and what they see.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{JobId, State, Verb};

/// The answer to a cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "answer", content = "state")]
pub enum CancelAnswer {
    /// The job is cancelled now.
    Cancelled,
    /// It is running; its worker is asked to stop (rule P2).
    Requested,
    /// It had ended before, in this state.
    TooLate(State),
}

/// One lease that the reaper ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseLoss {
    /// The job.
    pub job: JobId,
    /// The attempt that was lost.
    pub attempt: i64,
    /// The job's state now: scheduled, ready, dead or cancelled.
    pub state: State,
}

/// The answer of the reaper.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reaped {
    /// The leases that were ended.
    pub jobs: Vec<LeaseLoss>,
    /// How long the reaper holds back after an outage (rule R3).
    pub holding_for: Option<Duration>,
}

/// What one batch of `prune` removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// Finished jobs, with their attempts and keys.
    pub jobs: u64,
    /// Rows of the ledger of refused results.
    pub refused: u64,
    /// Records of which instant of a schedule became which job.
    pub schedule_runs: u64,
}

/// How long a record is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// For this long after the job ended. Zero keeps only the receipt (rule P8).
    For(Duration),
    /// Until somebody removes it.
    Forever,
}

/// The settings of a queue, or of every queue without its own (rule P6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueueSettings {
    /// The queue; `None` for the installation's defaults.
    pub queue: Option<String>,
    /// Free text for people.
    pub description: Option<String>,
    /// Since when no claim gets a job of it.
    pub paused_at: Option<OffsetDateTime>,
    /// Each interval of waiting lifts a job by one level of priority; `None`: strict priority.
    pub aging: Option<Duration>,
    /// Failure budget of jobs that name none.
    pub max_attempts: u32,
    /// Time per attempt of jobs that name none.
    pub max_run: Duration,
    /// First retry delay.
    pub retry_base: Duration,
    /// Longest retry delay.
    pub retry_cap: Duration,
    /// Largest failure budget that a producer may ask for.
    pub max_attempts_limit: u32,
    /// Longest time per attempt that a producer may ask for.
    pub max_run_limit: Duration,
    /// How far ahead `run_at` may lie; `None`: any distance.
    pub run_at_horizon: Option<Duration>,
    /// How long succeeded jobs are kept.
    pub keep_succeeded: Keep,
    /// How long cancelled jobs are kept.
    pub keep_cancelled: Keep,
    /// How long dead jobs are kept.
    pub keep_dead: Keep,
    /// How long receipts are kept; zero turns receipts off.
    pub receipts: Duration,
}

/// A change of some settings; `None` leaves a setting as it is.
#[derive(Debug, Clone, Default)]
pub struct SettingsChange {
    /// See [`QueueSettings::description`].
    pub description: Option<String>,
    /// See [`QueueSettings::aging`]; `Some(None)` returns to strict priority.
    pub aging: Option<Option<Duration>>,
    /// See [`QueueSettings::max_attempts`].
    pub max_attempts: Option<u32>,
    /// See [`QueueSettings::max_run`].
    pub max_run: Option<Duration>,
    /// See [`QueueSettings::retry_base`].
    pub retry_base: Option<Duration>,
    /// See [`QueueSettings::retry_cap`].
    pub retry_cap: Option<Duration>,
    /// See [`QueueSettings::max_attempts_limit`].
    pub max_attempts_limit: Option<u32>,
    /// See [`QueueSettings::max_run_limit`].
    pub max_run_limit: Option<Duration>,
    /// See [`QueueSettings::run_at_horizon`]; `Some(None)` removes the limit.
    pub run_at_horizon: Option<Option<Duration>>,
    /// See [`QueueSettings::keep_succeeded`].
    pub keep_succeeded: Option<Keep>,
    /// See [`QueueSettings::keep_cancelled`].
    pub keep_cancelled: Option<Keep>,
    /// See [`QueueSettings::keep_dead`].
    pub keep_dead: Option<Keep>,
    /// See [`QueueSettings::receipts`].
    pub receipts: Option<Duration>,
}

/// A count that stops at a stated cap, so that it costs the same at any size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Count {
    /// The number, exact if it is below the cap.
    pub n: u64,
    /// Whether there are at least `n`, and nobody counted on.
    pub capped: bool,
}

/// What an operator looks at first (rule V1).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QueueStats {
    /// The queue.
    pub queue: String,
    /// Whether claims are refused.
    pub paused: bool,
    /// Age of the oldest due job that no worker has taken.
    pub oldest_due_age: Option<Duration>,
    /// Jobs that a claim can take now.
    pub ready: Count,
    /// Jobs due later, or waiting for a retry.
    pub scheduled: Count,
    /// Jobs under a lease.
    pub running: Count,
    /// Of these, jobs whose lease has ended.
    pub expired: Count,
    /// Jobs that ended in the window, by outcome.
    pub succeeded: Count,
    /// See `succeeded`.
    pub dead: Count,
    /// See `succeeded`.
    pub cancelled: Count,
    /// Attempts that failed or expired in the window and led to a retry.
    pub retries: Count,
    /// Results refused in the window.
    pub refused: Count,
    /// From due to claimed, of jobs that ended in the window: median.
    pub start_p50: Option<Duration>,
    /// The same, 99th percentile.
    pub start_p99: Option<Duration>,
    /// From first due to ended, of jobs that ended in the window: median.
    pub finish_p50: Option<Duration>,
    /// The same, 99th percentile.
    pub finish_p99: Option<Duration>,
}

/// A violated invariant (rule V3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The invariant, as one word.
    pub check: String,
    /// How many rows violate it, counted to [`crate::limits::STATS_COUNT_CAP`].
    pub rows: u64,
    /// One of them.
    pub example: Option<JobId>,
    /// What it means.
    pub meaning: String,
}

/// Jobs of one kind that workers give back again and again and never complete: most often no handler knows the kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unhandled {
    /// Their queue.
    pub queue: String,
    /// Their kind.
    pub kind: String,
    /// How many there are, among the first [`crate::limits::STATS_COUNT_CAP`] scheduled jobs of the queue.
    pub jobs: Count,
    /// One of them.
    pub example: JobId,
}

/// What a backend itself uses and does, for metrics. It costs nothing to ask.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Connections to the database that are open now.
    pub connections: u64,
    /// Calls that were made again since the server had rolled them back (rule X3).
    pub calls_repeated: u64,
}

/// Everything known about one job, wherever it is in its life. Never its token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobRecord {
    /// Its number.
    pub id: JobId,
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// Its state.
    pub state: State,
    /// JSON text; `None` if only the receipt was kept.
    pub payload: Option<String>,
    /// Its priority.
    pub priority: i32,
    /// Claims so far.
    pub attempt: i64,
    /// Failures charged.
    pub failures: u32,
    /// The failure budget.
    pub max_attempts: u32,
    /// Time per attempt.
    pub max_run: Duration,
    /// The same in every attempt.
    pub operation_id: Uuid,
    /// At most one unfinished job has it.
    pub unique_key: Option<String>,
    /// When it was enqueued.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When it is, or was last, due.
    #[serde(with = "time::serde::rfc3339")]
    pub run_at: OffsetDateTime,
    /// Who holds it, or ran the last attempt.
    pub worker: Option<String>,
    /// When the current or last attempt was claimed.
    #[serde(with = "time::serde::rfc3339::option")]
    pub claimed_at: Option<OffsetDateTime>,
    /// When the lease ends.
    #[serde(with = "time::serde::rfc3339::option")]
    pub lease_until: Option<OffsetDateTime>,
    /// When somebody asked for its cancellation.
    #[serde(with = "time::serde::rfc3339::option")]
    pub cancel_requested_at: Option<OffsetDateTime>,
    /// When it ended.
    #[serde(with = "time::serde::rfc3339::option")]
    pub finished_at: Option<OffsetDateTime>,
    /// What the handler returned: JSON text.
    pub result: Option<String>,
    /// The last error.
    pub error: Option<String>,
    /// The trace that its enqueue belonged to (rule E12).
    pub traceparent: Option<String>,
}

/// One ended attempt (rule F7).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttemptRecord {
    /// Its number.
    pub attempt: i64,
    /// Who ran it.
    pub worker: Option<String>,
    /// When it was claimed.
    #[serde(with = "time::serde::rfc3339")]
    pub claimed_at: OffsetDateTime,
    /// When its handler was reported to have started; `None` if it never was.
    #[serde(with = "time::serde::rfc3339::option")]
    pub started_at: Option<OffsetDateTime>,
    /// When it ended.
    #[serde(with = "time::serde::rfc3339")]
    pub ended_at: OffsetDateTime,
    /// What ended it.
    pub verb: Verb,
    /// Whether it was charged to the failure budget.
    pub charged: bool,
    /// The error, cut to [`crate::limits::ERROR_BYTES_MAX`].
    pub error: Option<String>,
    /// The error's length before it was cut, in bytes.
    pub error_bytes: Option<i64>,
}

/// One line of the ledger of refused results (rule S7). Times count repeats of the same refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusedRecord {
    /// The line's number, for paging.
    pub id: i64,
    /// The job that the result was for.
    pub job: JobId,
    /// The attempt that the result was from.
    pub attempt: i64,
    /// What was asked for.
    pub verb: Verb,
    /// Who sent it.
    pub worker: Option<String>,
    /// Why it was refused, in words.
    pub reason: String,
    /// The result or error, cut to [`crate::limits::ERROR_BYTES_MAX`].
    pub detail: Option<String>,
    /// Who held the job then.
    pub owner: Option<String>,
    /// The job's attempt then; `None` if it was gone.
    pub owner_attempt: Option<i64>,
    /// The job's state then.
    pub state: Option<State>,
    /// How often the same result was refused.
    pub times: i64,
    /// When it was refused first.
    #[serde(with = "time::serde::rfc3339")]
    pub first_at: OffsetDateTime,
    /// When it was refused last.
    #[serde(with = "time::serde::rfc3339")]
    pub last_at: OffsetDateTime,
}

/// Which jobs to list.
#[derive(Debug, Clone)]
pub struct JobFilter {
    /// In this state.
    pub state: State,
    /// Of this queue.
    pub queue: Option<String>,
    /// Of this kind.
    pub kind: Option<String>,
    /// Continue below this id: pages go from the newest id down.
    pub before: Option<JobId>,
    /// Rows of a page, at most [`crate::limits::PAGE_ROWS_MAX`].
    pub limit: u32,
}

impl JobFilter {
    /// The first page of jobs in this state, of any queue and kind.
    pub fn new(state: State, limit: u32) -> Self {
        JobFilter { state, queue: None, kind: None, before: None, limit }
    }
}

/// Which key to look for.
#[derive(Debug, Clone)]
pub struct KeySearch {
    /// A unique key or an idempotency key, byte for byte.
    pub key: String,
    /// Of this queue.
    pub queue: Option<String>,
    /// Continue below this id: pages go from the newest id down.
    pub before: Option<JobId>,
    /// Rows of a page, at most [`crate::limits::PAGE_ROWS_MAX`].
    pub limit: u32,
}

impl KeySearch {
    /// The first page of jobs with this key, of any queue.
    pub fn new(key: impl Into<String>, limit: u32) -> Self {
        KeySearch { key: key.into(), queue: None, before: None, limit }
    }
}

/// A page of jobs, and how far the search for them went (rule V6).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobsPage {
    /// The jobs, newest id first.
    pub jobs: Vec<JobRecord>,
    /// `Some`: the page is not full, and yet the search stopped at this id, since it had looked at
    /// [`crate::limits::LOOKED_AT_MAX`] jobs. Older ones may match: ask again with `before`.
    pub searched_to: Option<JobId>,
}

impl JobsPage {
    /// The `before` of the next page; `None` if there is certainly nothing more.
    pub fn next(&self, limit: u32) -> Option<JobId> {
        let last = || self.jobs.last().map(|job| job.id).filter(|_| self.jobs.len() >= limit as usize);
        self.searched_to.or_else(last)
    }
}

/// What `migrate` found and did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MigrateReport {
    /// The schema's version before; `None` if there was no schema.
    pub version_before: Option<i64>,
    /// The version now.
    pub version: i64,
    /// The schema files that were run.
    pub applied: Vec<String>,
    /// The operations whose routine was created anew.
    pub operations: Vec<String>,
}
