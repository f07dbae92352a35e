//! Identities, states, and a job that is about to be enqueued.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::payload::{check_json, check_key, check_name};
use crate::traceparent::kept_traceparent;
use crate::{Error, Result, limits};

/// The number of a job: 64 bits, never reused (rule E3). It crosses JSON as a string, since many readers of JSON
/// round integers beyond 2^53.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub i64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for JobId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        text.parse().map(JobId).map_err(|_| Error::invalid(format!("{text:?} is not a job id")))
    }
}

impl Serialize for JobId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The secret of one claim: a random UUID, never nil (rule C4).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(Uuid);

impl Token {
    /// A new random token.
    pub fn random() -> Self {
        Token(Uuid::new_v4())
    }

    /// A token that the caller generated. Errors with `InvalidArgument` on the nil UUID.
    pub fn new(uuid: Uuid) -> Result<Self> {
        if uuid.is_nil() {
            return Err(Error::invalid("the nil UUID is not a token"));
        }
        Ok(Token(uuid))
    }

    /// The UUID itself.
    pub fn as_uuid(&self) -> Uuid {
        self.0
    }
}

impl fmt::Debug for Token {
    /// Shows only the first digits: the token is a secret, and logs are not.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({:.4}…)", self.0.simple().to_string())
    }
}

macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$vmeta])* $variant),+ }

        impl $name {
            /// Every value, in the order of their declaration.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The word as it stands in the database, in JSON and on the command line.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.pad(self.as_str()) }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self> {
                match text {
                    $($text => Ok($name::$variant),)+
                    _ => Err(Error::invalid(format!("{text:?} is not one of {}", [$($text),+].join(", ")))),
                }
            }
        }
    };
}

words! {
    /// Where a job is in its life.
    State {
        /// Due later, or waiting for a retry.
        Scheduled = "scheduled",
        /// Due, and found by claims.
        Ready = "ready",
        /// Held by a worker under a lease.
        Running = "running",
        /// Completed.
        Succeeded = "succeeded",
        /// Out of budget, or told not to retry.
        Dead = "dead",
        /// Cancelled before or while it ran.
        Cancelled = "cancelled",
    }
}

impl State {
    /// Whether the job has ended: no claim will ever find it again unless a dead one is retried.
    pub fn is_final(self) -> bool {
        matches!(self, State::Succeeded | State::Dead | State::Cancelled)
    }
}

words! {
    /// How an attempt ended, or what a settle asks for.
    Verb {
        /// The handler succeeded.
        Complete = "complete",
        /// The handler failed.
        Fail = "fail",
        /// The job was given back uncharged.
        Release = "release",
        /// The lease ended without a verdict and the reaper took the job.
        Expire = "expire",
        /// The job was revoked by a forced cancel.
        Revoke = "revoke",
    }
}

words! {
    /// The database behind a backend.
    Engine {
        /// The embedded default.
        Sqlite = "sqlite",
        /// PostgreSQL 13 and newer.
        Postgres = "postgres",
        /// MySQL 8.0 and newer.
        Mysql = "mysql",
        /// MariaDB 10.6 and newer.
        Mariadb = "mariadb",
        /// SQL Server 2016 SP1 and newer.
        Sqlserver = "sqlserver",
    }
}

/// A job to enqueue. Everything but queue, kind and payload has a default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// The queue that routes it to workers.
    pub queue: String,
    /// Which handler runs it.
    pub kind: String,
    /// JSON text, kept byte for byte (rule E8).
    pub payload: String,
    /// The instant it is due; `None` or past means now. Rounded up to 1 ms (rule T3).
    pub run_at: Option<OffsetDateTime>,
    /// `None`: the plain `enqueue`, which producers may call, with priority 0. `Some`: `enqueue_prioritized`, which
    /// only the scheduler may call (rule E2).
    pub priority: Option<i32>,
    /// Failure budget, at least 1; `None` takes the queue's default.
    pub max_attempts: Option<u32>,
    /// Time that one attempt may take, counted from its claim; `None` takes the queue's default.
    pub max_run: Option<Duration>,
    /// At most one unfinished job per (queue, unique key) (rule E5).
    pub unique_key: Option<String>,
    /// Repeating an enqueue with this key answers what the first one answered (rule E4).
    pub idempotency_key: Option<String>,
    /// The trace that this enqueue belongs to, as the header `traceparent` says it. What is no such header is dropped,
    /// never refused (rule E12).
    pub traceparent: Option<String>,
}

impl NewJob {
    /// A job due now with every default.
    pub fn new(queue: impl Into<String>, kind: impl Into<String>, payload: impl Into<String>) -> Self {
        NewJob {
            queue: queue.into(),
            kind: kind.into(),
            payload: payload.into(),
            run_at: None,
            priority: None,
            max_attempts: None,
            max_run: None,
            unique_key: None,
            idempotency_key: None,
            traceparent: None,
        }
    }

    /// Sets when the job is due.
    pub fn run_at(mut self, run_at: OffsetDateTime) -> Self {
        self.run_at = Some(run_at);
        self
    }

    /// Sets the priority, which takes the scheduler's right.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Sets the failure budget.
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.max_attempts = Some(max_attempts);
        self
    }

    /// Sets the time that one attempt may take.
    pub fn max_run(mut self, max_run: Duration) -> Self {
        self.max_run = Some(max_run);
        self
    }

    /// Sets the unique key.
    pub fn unique_key(mut self, key: impl Into<String>) -> Self {
        self.unique_key = Some(key.into());
        self
    }

    /// Sets the idempotency key.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Sets the trace that this enqueue belongs to (rule E12).
    pub fn traceparent(mut self, traceparent: impl Into<String>) -> Self {
        self.traceparent = Some(traceparent.into());
        self
    }

    /// The trace as it is sent: nothing if it is malformed.
    pub fn traceparent_kept(&self) -> Option<&str> {
        self.traceparent.as_deref().and_then(kept_traceparent)
    }

    /// When the job is due as it is sent: rounded up to 1 ms, so that it is never claimed too early (rule T3).
    pub fn run_at_rounded(&self) -> Option<OffsetDateTime> {
        let run_at = self.run_at?;
        let below = run_at.nanosecond() % 1_000_000;
        let up = if below == 0 { 0 } else { 1_000_000 - below };
        // At the end of time there is nothing to round up to; `check` refuses that year.
        Some(run_at.checked_add(time::Duration::nanoseconds(i64::from(up))).unwrap_or(run_at))
    }

    /// Checks every limit that a client can check; `payload_bytes_max` is the client's own setting.
    /// Errors with `InvalidArgument` that names the field. Queue-wide limits are the database's to check.
    pub fn check(&self, payload_bytes_max: usize) -> Result<()> {
        check_name("queue", &self.queue)?;
        check_name("kind", &self.kind)?;
        check_json("payload", &self.payload, payload_bytes_max)?;
        if let Some(key) = &self.unique_key {
            check_key("unique_key", key)?;
        }
        if let Some(key) = &self.idempotency_key {
            check_key("idempotency_key", key)?;
        }
        if let Some(priority) = self.priority {
            check_priority(priority)?;
        }
        if let Some(n) = self.max_attempts
            && !(1..=limits::ATTEMPTS_MAX).contains(&n)
        {
            return Err(Error::invalid(format!("max_attempts {n} is not in 1..={}", limits::ATTEMPTS_MAX)));
        }
        if let Some(max_run) = self.max_run
            && !(limits::LEASE_MIN..=limits::MAX_RUN_MAX).contains(&max_run)
        {
            return Err(Error::invalid(format!("max_run {max_run:?} is not between 1 ms and 365 days")));
        }
        if let Some(run_at) = self.run_at
            && run_at > limits_run_at_max()
        {
            return Err(Error::invalid(format!("run_at {run_at} is after the year 9999")));
        }
        Ok(())
    }
}

/// Checks what one call of enqueue may hold, and each of its jobs (rules E7, E9).
/// Errors with `InvalidArgument` that names the row, if there is more than one.
pub fn check_jobs(jobs: &[NewJob], payload_bytes_max: usize) -> Result<()> {
    if jobs.len() > limits::ENQUEUE_JOBS_MAX {
        let max = limits::ENQUEUE_JOBS_MAX;
        return Err(Error::invalid(format!("one call enqueues at most {max} jobs, not {}", jobs.len())));
    }
    let bytes: usize = jobs.iter().map(|job| job.payload.len()).sum();
    if bytes > limits::ENQUEUE_BYTES_MAX {
        let max = limits::ENQUEUE_BYTES_MAX;
        return Err(Error::invalid(format!("one call enqueues at most {max} bytes of payload, not {bytes}")));
    }
    for (i, job) in jobs.iter().enumerate() {
        job.check(payload_bytes_max).map_err(|error| {
            if jobs.len() == 1 {
                error
            } else {
                Error::invalid(format!("row {}: {}", i + 1, error.message()))
            }
        })?;
    }
    Ok(())
}

/// Errors with `InvalidArgument` if the priority is outside -1000..=1000.
pub(crate) fn check_priority(priority: i32) -> Result<()> {
    if (limits::PRIORITY_MIN..=limits::PRIORITY_MAX).contains(&priority) {
        return Ok(());
    }
    let (min, max) = (limits::PRIORITY_MIN, limits::PRIORITY_MAX);
    Err(Error::invalid(format!("priority {priority} is not in {min}..={max}")))
}

fn limits_run_at_max() -> OffsetDateTime {
    time::macros::datetime!(9999-12-31 23:59:59 UTC)
}

/// The answer to one enqueue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Enqueued {
    /// The job that now stands for the request.
    pub id: JobId,
    /// Whether this call created it; `false` if a key found it already there.
    pub created: bool,
}
