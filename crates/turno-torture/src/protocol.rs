//! What the supervisor and a worker process say to each other: one JSON document a line, over standard input and
//! output. It refuses to carry a token: proofs stay in the process that holds them.

use std::fmt;

use serde::{Deserialize, Serialize};
use turno::{State, Verb};

/// A named place in the life of a worker, where the supervisor may have it stand still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// A claim was answered, and nothing has started.
    Claimed,
    /// The handler has begun and has done nothing.
    Handler,
    /// The handler's effect is written, and it has not returned.
    Effect,
    /// The handler has returned, and its verdict is not sent.
    Completing,
    /// `complete_in` was answered in the handler's own transaction, which is still open.
    Hold,
    /// The worker was told to shut down while a handler ran.
    Shutdown,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Place::Claimed => "after the claim",
            Place::Handler => "during the handler",
            Place::Effect => "after the effect",
            Place::Completing => "before the verdict",
            Place::Hold => "in complete_in",
            Place::Shutdown => "during shutdown",
        })
    }
}

/// The first line that a worker reads.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Setup {
    /// The database, through the worker's proxy.
    pub url: String,
    /// Its label, which names one life of one process.
    pub name: String,
    /// The queue.
    pub queue: String,
    /// The lease.
    pub lease_ms: u64,
    /// How many handlers run at once.
    pub concurrency: usize,
    /// The ledger of effects.
    pub ledger: String,
}

/// What the supervisor tells a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "tell", rename_all = "snake_case")]
pub enum Told {
    /// Stand still at this place, once.
    Arm {
        /// The place.
        place: Place,
    },
    /// Forget that.
    Disarm,
    /// Go on.
    Go,
}

/// What a worker says.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum Said {
    /// It is about to work.
    Hello {
        /// What its clock shows, in microseconds since 1970.
        wall_us: i64,
    },
    /// It stands still.
    At {
        /// Where.
        place: Place,
        /// With which job.
        job: i64,
        /// In which attempt.
        attempt: i64,
    },
    /// A handler that had stood still has returned by itself: its result is about to be sent.
    Returned {
        /// The job.
        job: i64,
        /// The attempt.
        attempt: i64,
    },
    /// The database answered to a settle.
    Settled {
        /// The job.
        job: i64,
        /// The attempt.
        attempt: i64,
        /// What was asked for.
        verb: Verb,
        /// How that ended.
        status: Answer,
        /// The job's state now.
        state: Option<State>,
    },
    /// A call failed and will be made again.
    Trouble {
        /// The operation.
        operation: String,
        /// What it answered.
        error: String,
    },
    /// A call took so long that a lease may have ended meanwhile.
    Slow {
        /// How long.
        ms: u64,
    },
    /// The process got no processor time for so long.
    Stall {
        /// How long.
        ms: u64,
    },
}

/// How a settle ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Accepted.
    Done,
    /// Accepted before.
    Already,
    /// The proof is not the current one.
    Refused,
    /// No record is left.
    Gone,
}

impl From<turno::SettledStatus> for Answer {
    fn from(status: turno::SettledStatus) -> Self {
        match status {
            turno::SettledStatus::Done => Answer::Done,
            turno::SettledStatus::Already => Answer::Already,
            turno::SettledStatus::Refused => Answer::Refused,
            turno::SettledStatus::Gone => Answer::Gone,
        }
    }
}

/// What a job asks of its handler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// How long it takes.
    pub ms: u64,
    /// How many attempts fail before one succeeds.
    pub fails: u32,
    /// Whether the handler completes in a transaction of its own.
    pub transaction: bool,
    /// Whether the first attempt gives the job back.
    pub snoozes: bool,
}

/// What a handler answers: who did it, so that the record shows whose result was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The attempt that returned it.
    pub attempt: i64,
    /// The worker.
    pub worker: String,
}
