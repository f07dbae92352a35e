//! What a worker says when it ends: how it ended, and where every job it held has gone. It refuses to leave a job out.

use std::time::Duration;

use serde::Serialize;
use turno_contract::JobId;

use crate::Metrics;

/// Why the worker stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StoppedBy {
    /// [`WorkerHandle::shutdown`](crate::WorkerHandle::shutdown).
    Shutdown,
    /// [`WorkerHandle::stop_now`](crate::WorkerHandle::stop_now), or the future of `run` was dropped.
    StopNow,
}

/// One attempt that did not end by its own handler's word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Leftover {
    /// The job.
    pub job: JobId,
    /// Its attempt.
    pub attempt: i64,
    /// Its kind.
    pub kind: String,
    /// What happened to it, in words.
    pub reason: String,
}

/// The last words of a worker.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The worker's label.
    pub worker: String,
    /// Why it stopped.
    pub stopped_by: StoppedBy,
    /// How long the shutdown took.
    pub shutdown_took: Duration,
    /// Given back uncharged during the shutdown: jobs that had not started, and handlers that stopped when asked.
    pub released: Vec<Leftover>,
    /// Aborted at the end of the grace and given up, charged, so that another worker can start them at once.
    pub given_up: Vec<Leftover>,
    /// Left to the end of their lease: their handler could not be stopped, or the database did not answer.
    pub left_to_lease: Vec<Leftover>,
    /// All the counters.
    pub metrics: Metrics,
}
