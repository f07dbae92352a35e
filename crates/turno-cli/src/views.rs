//! The shapes of `--json`: stable field names, ids as strings, instants in RFC 3339, durations in milliseconds.
//! Payloads and results are left out unless asked for; the token of a claim never appears.

use std::time::Duration;

use serde::Serialize;
use serde::ser::SerializeStruct;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use turno::{
    AttemptRecord, ClaimedJob, Count, JobId, JobRecord, Keep, LeaseLoss, QueueSettings, QueueStats,
    RefusedRecord, ScheduleRecord, State, Verb,
};
use utoipa::ToSchema;

/// Whole milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Millis(pub Duration);

impl Serialize for Millis {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX))
    }
}

/// An instant in RFC 3339, UTC.
#[derive(Debug, Clone, Copy)]
pub struct Instant(pub OffsetDateTime);

impl Serialize for Instant {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&crate::parse::show_instant(self.0))
    }
}

/// JSON text: its length, and the document itself if it may be shown. Text that is no JSON is shown as a string.
#[derive(Debug)]
pub struct Document<'a> {
    text: Option<&'a str>,
    shown: bool,
}

impl<'a> Document<'a> {
    fn new(text: Option<&'a String>, shown: bool) -> Self {
        Document { text: text.map(String::as_str), shown }
    }
}

impl Serialize for Document<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(text) = self.text else { return serializer.serialize_none() };
        if !self.shown {
            let mut redacted = serializer.serialize_struct("Redacted", 1)?;
            redacted.serialize_field("redacted_bytes", &text.len())?;
            return redacted.end();
        }
        match serde_json::from_str::<&RawValue>(text) {
            Ok(raw) => raw.serialize(serializer),
            Err(_) => serializer.serialize_str(text),
        }
    }
}

/// A count that stops at 10,000, as the OpenAPI document shows it.
#[derive(ToSchema)]
#[schema(as = Count)]
#[allow(dead_code, reason = "stands in for the contract's type, which knows no OpenAPI")]
pub struct CountSchema {
    /// The number, exact unless it is capped.
    n: u64,
    /// Whether there are at least `n`.
    capped: bool,
}

/// A job of `job list` and `job show`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Job<'a> {
    #[schema(value_type = String)]
    id: JobId,
    queue: &'a str,
    kind: &'a str,
    #[schema(value_type = String)]
    state: State,
    priority: i32,
    attempt: i64,
    failures: u32,
    max_attempts: u32,
    #[schema(value_type = u64)]
    max_run_ms: Millis,
    operation_id: String,
    /// The trace that its enqueue belonged to (W3C Trace Context).
    traceparent: Option<&'a str>,
    unique_key: Option<&'a str>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Instant,
    #[schema(value_type = String, format = DateTime)]
    run_at: Instant,
    worker: Option<&'a str>,
    #[schema(value_type = Option<String>, format = DateTime)]
    claimed_at: Option<Instant>,
    #[schema(value_type = Option<String>, format = DateTime)]
    lease_until: Option<Instant>,
    #[schema(value_type = Option<String>, format = DateTime)]
    cancel_requested_at: Option<Instant>,
    #[schema(value_type = Option<String>, format = DateTime)]
    finished_at: Option<Instant>,
    error: Option<&'a str>,
    #[schema(value_type = serde_json::Value)]
    payload: Document<'a>,
    #[schema(value_type = serde_json::Value)]
    result: Document<'a>,
}

impl<'a> Job<'a> {
    /// The view of a record, with payload and result if they may be shown.
    pub fn new(job: &'a JobRecord, show_payload: bool) -> Self {
        Job {
            id: job.id,
            queue: &job.queue,
            kind: &job.kind,
            state: job.state,
            priority: job.priority,
            attempt: job.attempt,
            failures: job.failures,
            max_attempts: job.max_attempts,
            max_run_ms: Millis(job.max_run),
            operation_id: job.operation_id.to_string(),
            traceparent: job.traceparent.as_deref(),
            unique_key: job.unique_key.as_deref(),
            created_at: Instant(job.created_at),
            run_at: Instant(job.run_at),
            worker: job.worker.as_deref(),
            claimed_at: job.claimed_at.map(Instant),
            lease_until: job.lease_until.map(Instant),
            cancel_requested_at: job.cancel_requested_at.map(Instant),
            finished_at: job.finished_at.map(Instant),
            error: job.error.as_deref(),
            payload: Document::new(job.payload.as_ref(), show_payload),
            result: Document::new(job.result.as_ref(), show_payload),
        }
    }
}

/// A job of `held`: what a token holds, without the token.
#[derive(Debug, Serialize)]
pub struct Held<'a> {
    id: JobId,
    attempt: i64,
    queue: &'a str,
    kind: &'a str,
    operation_id: String,
    claimed_at: Instant,
    lease_until: Instant,
    payload: Document<'a>,
}

impl<'a> Held<'a> {
    /// The view of a claimed job.
    pub fn new(job: &'a ClaimedJob, show_payload: bool) -> Self {
        Held {
            id: job.proof.job,
            attempt: job.proof.attempt,
            queue: &job.queue,
            kind: &job.kind,
            operation_id: job.operation_id.to_string(),
            claimed_at: Instant(job.claimed_at),
            lease_until: Instant(job.lease_until),
            payload: Document::new(Some(&job.payload), show_payload),
        }
    }
}

/// An ended attempt of `job show`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Attempt<'a> {
    attempt: i64,
    #[schema(value_type = String)]
    verb: Verb,
    charged: bool,
    worker: Option<&'a str>,
    #[schema(value_type = String, format = DateTime)]
    claimed_at: Instant,
    #[schema(value_type = Option<String>, format = DateTime)]
    started_at: Option<Instant>,
    #[schema(value_type = String, format = DateTime)]
    ended_at: Instant,
    error: Option<&'a str>,
    error_bytes: Option<i64>,
}

impl<'a> From<&'a AttemptRecord> for Attempt<'a> {
    fn from(attempt: &'a AttemptRecord) -> Self {
        Attempt {
            attempt: attempt.attempt,
            verb: attempt.verb,
            charged: attempt.charged,
            worker: attempt.worker.as_deref(),
            claimed_at: Instant(attempt.claimed_at),
            started_at: attempt.started_at.map(Instant),
            ended_at: Instant(attempt.ended_at),
            error: attempt.error.as_deref(),
            error_bytes: attempt.error_bytes,
        }
    }
}

/// A line of the ledger of refused results.
#[derive(Debug, Serialize, ToSchema)]
pub struct Refusal<'a> {
    id: String,
    #[schema(value_type = String)]
    job: JobId,
    attempt: i64,
    #[schema(value_type = String)]
    verb: Verb,
    worker: Option<&'a str>,
    reason: &'a str,
    #[schema(value_type = serde_json::Value)]
    detail: Document<'a>,
    owner: Option<&'a str>,
    owner_attempt: Option<i64>,
    #[schema(value_type = Option<String>)]
    state: Option<State>,
    times: i64,
    #[schema(value_type = String, format = DateTime)]
    first_at: Instant,
    #[schema(value_type = String, format = DateTime)]
    last_at: Instant,
}

impl<'a> Refusal<'a> {
    /// The view of a line; its detail is a result or an error, and shown only if payloads are.
    pub fn new(line: &'a RefusedRecord, show_payload: bool) -> Self {
        Refusal {
            id: line.id.to_string(),
            job: line.job,
            attempt: line.attempt,
            verb: line.verb,
            worker: line.worker.as_deref(),
            reason: &line.reason,
            detail: Document::new(line.detail.as_ref(), show_payload),
            owner: line.owner.as_deref(),
            owner_attempt: line.owner_attempt,
            state: line.state,
            times: line.times,
            first_at: Instant(line.first_at),
            last_at: Instant(line.last_at),
        }
    }
}

/// A schedule. `next_at` is `null` if it has no further instant, and `done_until` if nobody has worked it out yet.
#[derive(Debug, Serialize, ToSchema)]
pub struct Schedule<'a> {
    name: &'a str,
    cron: &'a str,
    zone: &'a str,
    queue: &'a str,
    kind: &'a str,
    #[schema(value_type = serde_json::Value)]
    payload: Document<'a>,
    priority: i32,
    max_attempts: Option<u32>,
    #[schema(value_type = Option<u64>)]
    max_run_ms: Option<Millis>,
    unique_key: Option<&'a str>,
    missed: String,
    revision: i64,
    #[schema(value_type = Option<String>, format = DateTime)]
    paused_at: Option<Instant>,
    #[schema(value_type = String, format = DateTime)]
    done_until: Instant,
    #[schema(value_type = Option<String>, format = DateTime)]
    next_at: Option<Instant>,
    #[schema(value_type = Option<String>, format = DateTime)]
    last_at: Option<Instant>,
    #[schema(value_type = Option<String>)]
    last_job: Option<JobId>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Instant,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Instant,
}

impl<'a> Schedule<'a> {
    /// The view of a record, with the payload if it may be shown.
    pub fn new(record: &'a ScheduleRecord, show_payload: bool) -> Self {
        let schedule = &record.schedule;
        Schedule {
            name: &schedule.name,
            cron: &schedule.cron,
            zone: &schedule.zone,
            queue: &schedule.queue,
            kind: &schedule.kind,
            payload: Document::new(Some(&schedule.payload), show_payload),
            priority: schedule.priority,
            max_attempts: schedule.max_attempts,
            max_run_ms: schedule.max_run.map(Millis),
            unique_key: schedule.unique_key.as_deref(),
            missed: schedule.missed.to_string(),
            revision: record.revision,
            paused_at: record.paused_at.map(Instant),
            done_until: Instant(record.done_until),
            next_at: record.next_at.map(Instant),
            last_at: record.last_at.map(Instant),
            last_job: record.last_job,
            created_at: Instant(record.created_at),
            updated_at: Instant(record.updated_at),
        }
    }
}

/// The settings of a queue; `null` for "no limit", "strict" and "forever".
#[derive(Debug, Serialize, ToSchema)]
pub struct Settings<'a> {
    queue: Option<&'a str>,
    description: Option<&'a str>,
    #[schema(value_type = Option<String>, format = DateTime)]
    paused_at: Option<Instant>,
    #[schema(value_type = Option<u64>)]
    aging_ms: Option<Millis>,
    max_attempts: u32,
    #[schema(value_type = u64)]
    max_run_ms: Millis,
    #[schema(value_type = u64)]
    retry_base_ms: Millis,
    #[schema(value_type = u64)]
    retry_cap_ms: Millis,
    max_attempts_limit: u32,
    #[schema(value_type = u64)]
    max_run_limit_ms: Millis,
    #[schema(value_type = Option<u64>)]
    run_at_horizon_ms: Option<Millis>,
    #[schema(value_type = Option<u64>)]
    keep_succeeded_ms: Option<Millis>,
    #[schema(value_type = Option<u64>)]
    keep_cancelled_ms: Option<Millis>,
    #[schema(value_type = Option<u64>)]
    keep_dead_ms: Option<Millis>,
    #[schema(value_type = u64)]
    receipts_ms: Millis,
}

impl<'a> From<&'a QueueSettings> for Settings<'a> {
    fn from(settings: &'a QueueSettings) -> Self {
        Settings {
            queue: settings.queue.as_deref(),
            description: settings.description.as_deref(),
            paused_at: settings.paused_at.map(Instant),
            aging_ms: settings.aging.map(Millis),
            max_attempts: settings.max_attempts,
            max_run_ms: Millis(settings.max_run),
            retry_base_ms: Millis(settings.retry_base),
            retry_cap_ms: Millis(settings.retry_cap),
            max_attempts_limit: settings.max_attempts_limit,
            max_run_limit_ms: Millis(settings.max_run_limit),
            run_at_horizon_ms: settings.run_at_horizon.map(Millis),
            keep_succeeded_ms: kept(settings.keep_succeeded),
            keep_cancelled_ms: kept(settings.keep_cancelled),
            keep_dead_ms: kept(settings.keep_dead),
            receipts_ms: Millis(settings.receipts),
        }
    }
}

fn kept(keep: Keep) -> Option<Millis> {
    match keep {
        Keep::For(duration) => Some(Millis(duration)),
        Keep::Forever => None,
    }
}

/// The state of a queue. A count with `capped` means "at least".
#[derive(Debug, Serialize, ToSchema)]
pub struct Stats<'a> {
    queue: &'a str,
    paused: bool,
    #[schema(value_type = Option<u64>)]
    oldest_due_age_ms: Option<Millis>,
    #[schema(value_type = CountSchema)]
    ready: Count,
    #[schema(value_type = CountSchema)]
    scheduled: Count,
    #[schema(value_type = CountSchema)]
    running: Count,
    #[schema(value_type = CountSchema)]
    expired: Count,
    #[schema(value_type = CountSchema)]
    succeeded: Count,
    #[schema(value_type = CountSchema)]
    dead: Count,
    #[schema(value_type = CountSchema)]
    cancelled: Count,
    #[schema(value_type = CountSchema)]
    retries: Count,
    #[schema(value_type = CountSchema)]
    refused: Count,
    #[schema(value_type = Option<u64>)]
    start_p50_ms: Option<Millis>,
    #[schema(value_type = Option<u64>)]
    start_p99_ms: Option<Millis>,
    #[schema(value_type = Option<u64>)]
    finish_p50_ms: Option<Millis>,
    #[schema(value_type = Option<u64>)]
    finish_p99_ms: Option<Millis>,
    #[schema(value_type = u64)]
    window_ms: Millis,
}

impl<'a> Stats<'a> {
    /// The view of one queue over this window.
    pub fn new(stats: &'a QueueStats, window: Duration) -> Self {
        Stats {
            queue: &stats.queue,
            paused: stats.paused,
            oldest_due_age_ms: stats.oldest_due_age.map(Millis),
            ready: stats.ready,
            scheduled: stats.scheduled,
            running: stats.running,
            expired: stats.expired,
            succeeded: stats.succeeded,
            dead: stats.dead,
            cancelled: stats.cancelled,
            retries: stats.retries,
            refused: stats.refused,
            start_p50_ms: stats.start_p50.map(Millis),
            start_p99_ms: stats.start_p99.map(Millis),
            finish_p50_ms: stats.finish_p50.map(Millis),
            finish_p99_ms: stats.finish_p99.map(Millis),
            window_ms: Millis(window),
        }
    }
}

/// A lease that `reap` ended.
#[derive(Debug, Serialize)]
pub struct Reaped {
    job: JobId,
    attempt: i64,
    state: State,
}

impl From<&LeaseLoss> for Reaped {
    fn from(loss: &LeaseLoss) -> Self {
        Reaped { job: loss.job, attempt: loss.attempt, state: loss.state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_redacted_unless_asked_for() {
        let text = r#"{"z":1970670598291982290,"a":1.0}"#.to_owned();
        let shown = |shown| serde_json::to_string(&Document::new(Some(&text), shown)).unwrap();
        assert_eq!(shown(false), r#"{"redacted_bytes":33}"#);
        assert_eq!(shown(true), text);
        assert_eq!(serde_json::to_string(&Document::new(None, true)).unwrap(), "null");
        let broken = "{".to_owned();
        assert_eq!(serde_json::to_string(&Document::new(Some(&broken), true)).unwrap(), r#""{""#);
    }
}
