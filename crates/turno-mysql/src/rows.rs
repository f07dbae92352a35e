//! Rows of the routines as the contract's types. Columns are read by name; a name that is missing is a bug of ours.

use std::str::FromStr;
use std::time::Duration;

use mysql_async::Row;
use mysql_async::prelude::FromValue;
use time::OffsetDateTime;
use turno_contract::{
    AttemptRecord, CancelAnswer, ClaimedJob, Count, Enqueued, Error, ErrorKind, Finding, HeartbeatAnswer,
    JobId, JobRecord, JobsPage, Keep, LeaseLoss, Proof, QueueSettings, QueueStats, RefusedRecord, Result,
    Settled, SettledStatus, Token, Unhandled, limits,
};
use uuid::Uuid;

pub(crate) fn millis(ms: i64) -> Duration {
    Duration::from_millis(ms.max(0) as u64)
}

/// An instant as the routines take it: microseconds since 1970.
pub(crate) fn micros(at: OffsetDateTime) -> i64 {
    i64::try_from(at.unix_timestamp_nanos() / 1000).unwrap_or(i64::MAX)
}

/// One column, which may be NULL only if `T` is an `Option`.
pub(crate) fn get<T: FromValue>(row: &Row, column: &str) -> Result<T> {
    match row.get_opt::<T, _>(column) {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(Error::new(ErrorKind::Internal, format!("column {column}: {error}"))),
        None => Err(Error::new(ErrorKind::Internal, format!("the routine answered no column {column}"))),
    }
}

/// The place of an answer in the request, from 0.
pub(crate) fn place(row: &Row) -> Result<usize> {
    Ok(usize::try_from(get::<i64>(row, "place")? - 1).unwrap_or(usize::MAX))
}

pub(crate) fn instant(row: &Row, column: &str) -> Result<OffsetDateTime> {
    at(get(row, column)?)
}

pub(crate) fn optional_instant(row: &Row, column: &str) -> Result<Option<OffsetDateTime>> {
    get::<Option<i64>>(row, column)?.map(at).transpose()
}

/// An instant as the routines answer it.
pub(crate) fn at(micros: i64) -> Result<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1000)
        .map_err(|error| Error::new(ErrorKind::Internal, "an instant beyond all years").with_source(error))
}

fn optional_millis(row: &Row, column: &str) -> Result<Option<Duration>> {
    Ok(get::<Option<i64>>(row, column)?.map(millis))
}

fn word<T: FromStr<Err = Error>>(row: &Row, column: &str) -> Result<T> {
    get::<String>(row, column)?.parse().map_err(unexpected)
}

fn optional_word<T: FromStr<Err = Error>>(row: &Row, column: &str) -> Result<Option<T>> {
    get::<Option<String>>(row, column)?.map(|text| text.parse().map_err(unexpected)).transpose()
}

pub(crate) fn unexpected(error: Error) -> Error {
    Error::new(ErrorKind::Internal, format!("the database answered with an unknown word: {error}"))
}

fn unsigned(row: &Row, column: &str) -> Result<u32> {
    Ok(u32::try_from(get::<i64>(row, column)?.max(0)).unwrap_or(u32::MAX))
}

fn uuid(row: &Row, column: &str) -> Result<Uuid> {
    Uuid::parse_str(&get::<String>(row, column)?)
        .map_err(|error| Error::new(ErrorKind::Internal, format!("column {column}: {error}")))
}

pub(crate) fn enqueued(row: &Row) -> Result<Enqueued> {
    Ok(Enqueued { id: JobId(get(row, "id")?), created: get(row, "created")? })
}

pub(crate) fn claimed_job(row: &Row) -> Result<ClaimedJob> {
    let proof = Proof {
        job: JobId(get(row, "id")?),
        attempt: get(row, "attempt")?,
        token: Token::new(uuid(row, "token")?)?,
    };
    Ok(ClaimedJob {
        proof,
        queue: get(row, "queue")?,
        kind: get(row, "kind")?,
        payload: get(row, "payload")?,
        priority: get(row, "priority")?,
        failures: unsigned(row, "failures")?,
        max_attempts: unsigned(row, "max_attempts")?,
        operation_id: uuid(row, "operation_id")?,
        run_at: instant(row, "run_at")?,
        created_at: instant(row, "created_at")?,
        claimed_at: instant(row, "claimed_at")?,
        lease_until: instant(row, "lease_until")?,
        max_run: millis(get(row, "max_run_ms")?),
        rank: get(row, "rank")?,
        traceparent: get(row, "traceparent")?,
    })
}

pub(crate) fn heartbeat(row: &Row) -> Result<HeartbeatAnswer> {
    Ok(match get::<String>(row, "answer")?.as_str() {
        "held" => HeartbeatAnswer::Held {
            until: instant(row, "held_until")?,
            held_for: millis(get(row, "held_for_ms")?),
            cancel_requested: get(row, "cancel_requested")?,
        },
        "busy" => HeartbeatAnswer::Busy,
        "lost" => HeartbeatAnswer::Lost,
        "finished" => HeartbeatAnswer::Finished,
        other => return Err(unexpected(Error::invalid(other))),
    })
}

fn status(row: &Row) -> Result<SettledStatus> {
    Ok(match get::<String>(row, "status")?.as_str() {
        "done" => SettledStatus::Done,
        "already" => SettledStatus::Already,
        "refused" => SettledStatus::Refused,
        "gone" => SettledStatus::Gone,
        other => return Err(unexpected(Error::invalid(other))),
    })
}

/// An answer of a batch.
pub(crate) fn settled(row: &Row) -> Result<Settled> {
    let reason = get(row, "reason")?;
    Ok(Settled { reason, ..settled_single(row)? })
}

/// An answer of a single settle, which has no reason: a refusal raises.
pub(crate) fn settled_single(row: &Row) -> Result<Settled> {
    Ok(Settled {
        status: status(row)?,
        state: optional_word(row, "state")?,
        run_at: optional_instant(row, "run_at")?,
        reason: None,
    })
}

pub(crate) fn lease_loss(row: &Row) -> Result<LeaseLoss> {
    Ok(LeaseLoss {
        job: JobId(get(row, "job_id")?),
        attempt: get(row, "attempt")?,
        state: word(row, "state")?,
    })
}

pub(crate) fn cancel(row: &Row) -> Result<CancelAnswer> {
    Ok(match get::<String>(row, "answer")?.as_str() {
        "cancelled" => CancelAnswer::Cancelled,
        "requested" => CancelAnswer::Requested,
        _ => CancelAnswer::TooLate(word(row, "state")?),
    })
}

pub(crate) fn queue_settings(row: &Row) -> Result<QueueSettings> {
    let keep = |column: &str| -> Result<Keep> {
        Ok(match get::<i64>(row, column)? {
            -1 => Keep::Forever,
            ms => Keep::For(millis(ms)),
        })
    };
    Ok(QueueSettings {
        queue: Some(get::<String>(row, "queue")?).filter(|queue| !queue.is_empty()),
        description: get(row, "description")?,
        paused_at: optional_instant(row, "paused_at")?,
        aging: optional_millis(row, "aging_ms")?,
        max_attempts: unsigned(row, "max_attempts")?,
        max_run: millis(get(row, "max_run_ms")?),
        retry_base: millis(get(row, "retry_base_ms")?),
        retry_cap: millis(get(row, "retry_cap_ms")?),
        max_attempts_limit: unsigned(row, "max_attempts_limit")?,
        max_run_limit: millis(get(row, "max_run_limit_ms")?),
        run_at_horizon: optional_millis(row, "run_at_horizon_ms")?,
        keep_succeeded: keep("keep_succeeded_ms")?,
        keep_cancelled: keep("keep_cancelled_ms")?,
        keep_dead: keep("keep_dead_ms")?,
        receipts: millis(get(row, "receipts_ms")?),
    })
}

pub(crate) fn queue_stats(row: &Row) -> Result<QueueStats> {
    let count = |column: &str| -> Result<Count> {
        let n = get::<i64>(row, column)?.max(0) as u64;
        Ok(Count { n, capped: n >= limits::STATS_COUNT_CAP })
    };
    Ok(QueueStats {
        queue: get(row, "queue")?,
        paused: get(row, "paused")?,
        oldest_due_age: optional_millis(row, "oldest_due_age_ms")?,
        ready: count("ready")?,
        scheduled: count("scheduled")?,
        running: count("running")?,
        expired: count("expired")?,
        succeeded: count("succeeded")?,
        dead: count("dead")?,
        cancelled: count("cancelled")?,
        retries: count("retries")?,
        refused: count("refused")?,
        start_p50: optional_millis(row, "start_p50_ms")?,
        start_p99: optional_millis(row, "start_p99_ms")?,
        finish_p50: optional_millis(row, "finish_p50_ms")?,
        finish_p99: optional_millis(row, "finish_p99_ms")?,
    })
}

pub(crate) fn finding(row: &Row) -> Result<Finding> {
    Ok(Finding {
        check: get(row, "check_name")?,
        rows: get::<i64>(row, "row_count")?.max(0) as u64,
        example: get::<Option<i64>>(row, "example")?.map(JobId),
        meaning: get(row, "meaning")?,
    })
}

pub(crate) fn unhandled(queue: &str, row: &Row) -> Result<Unhandled> {
    let n = get::<i64>(row, "jobs")?.max(0) as u64;
    Ok(Unhandled {
        queue: queue.to_owned(),
        kind: get(row, "kind")?,
        jobs: Count { n, capped: n >= limits::STATS_COUNT_CAP },
        example: JobId(get(row, "example")?),
    })
}

pub(crate) fn job_record(row: &Row) -> Result<JobRecord> {
    Ok(JobRecord {
        id: JobId(get(row, "id")?),
        queue: get(row, "queue")?,
        kind: get(row, "kind")?,
        state: word(row, "state")?,
        payload: get(row, "payload")?,
        priority: get(row, "priority")?,
        attempt: get(row, "attempt")?,
        failures: unsigned(row, "failures")?,
        max_attempts: unsigned(row, "max_attempts")?,
        max_run: millis(get(row, "max_run_ms")?),
        operation_id: uuid(row, "operation_id")?,
        unique_key: get(row, "unique_key")?,
        created_at: instant(row, "created_at")?,
        run_at: instant(row, "run_at")?,
        worker: get(row, "worker")?,
        claimed_at: optional_instant(row, "claimed_at")?,
        lease_until: optional_instant(row, "lease_until")?,
        cancel_requested_at: optional_instant(row, "cancel_requested_at")?,
        finished_at: optional_instant(row, "finished_at")?,
        result: get(row, "result")?,
        error: get(row, "error")?,
        traceparent: get(row, "traceparent")?,
    })
}

/// A page; a row that has nothing but an id says that the search stopped there (rule V6).
pub(crate) fn jobs_page(rows: &[Row]) -> Result<JobsPage> {
    let mut page = JobsPage::default();
    for row in rows {
        if get::<Option<String>>(row, "state")?.is_none() {
            page.searched_to = Some(JobId(get(row, "id")?));
        } else {
            page.jobs.push(job_record(row)?);
        }
    }
    Ok(page)
}

pub(crate) fn attempt(row: &Row) -> Result<AttemptRecord> {
    Ok(AttemptRecord {
        attempt: get(row, "attempt")?,
        worker: get(row, "worker")?,
        // Only a job cancelled while it waited has none, and that is no attempt.
        claimed_at: optional_instant(row, "claimed_at")?.unwrap_or(OffsetDateTime::UNIX_EPOCH),
        started_at: optional_instant(row, "started_at")?,
        ended_at: instant(row, "ended_at")?,
        verb: word(row, "verb")?,
        charged: get(row, "charged")?,
        error: get(row, "error")?,
        error_bytes: get(row, "error_bytes")?,
    })
}

pub(crate) fn refused(row: &Row) -> Result<RefusedRecord> {
    Ok(RefusedRecord {
        id: get(row, "id")?,
        job: JobId(get(row, "job_id")?),
        attempt: get(row, "attempt")?,
        verb: word(row, "verb")?,
        worker: get(row, "worker")?,
        reason: get(row, "reason")?,
        detail: get(row, "detail")?,
        owner: get(row, "owner")?,
        owner_attempt: get(row, "owner_attempt")?,
        state: optional_word(row, "state")?,
        times: get(row, "times")?,
        first_at: instant(row, "first_at")?,
        last_at: instant(row, "last_at")?,
    })
}
