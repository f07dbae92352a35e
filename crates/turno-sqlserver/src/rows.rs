//! Rows of the routines as the contract's types. Columns are read by name; a name that is missing is a bug of ours.

use std::str::FromStr;
use std::time::Duration;

use tiberius::{ColumnData, FromSql, Row};
use time::macros::datetime;
use time::{OffsetDateTime, PrimitiveDateTime, UtcOffset};
use turno_contract::{
    AttemptRecord, CancelAnswer, ClaimedJob, Count, Enqueued, Error, ErrorKind, Finding, HeartbeatAnswer,
    JobId, JobRecord, JobsPage, Keep, LeaseLoss, Proof, Pruned, QueueSettings, QueueStats, RefusedRecord,
    Result, Settled, SettledStatus, Token, Unhandled, limits,
};
use uuid::Uuid;

pub(crate) fn millis(ms: i64) -> Duration {
    Duration::from_millis(ms.max(0) as u64)
}

/// An instant as the routines take it: UTC without an offset. After the year 9999 no calendar of the server goes on; its last
/// instant is refused there as what it is.
pub(crate) fn utc(at: OffsetDateTime) -> PrimitiveDateTime {
    match at.checked_to_offset(UtcOffset::UTC) {
        Some(at) => PrimitiveDateTime::new(at.date(), at.time()),
        None => datetime!(9999-12-31 23:59:59.999999),
    }
}

/// The same in a batch.
pub(crate) fn text(at: OffsetDateTime) -> String {
    let at = utc(at);
    let (hour, minute, second, nanosecond) = at.as_hms_nano();
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:06}", nanosecond / 1000)
}

/// What a column can be read as.
pub(crate) trait Read: Sized {
    /// The value; `None` for a value of another type, or NULL where none is expected.
    fn read(data: &ColumnData<'static>) -> Option<Self>;
}

impl Read for i64 {
    /// The server's counts and sums have whatever width their expression has.
    fn read(data: &ColumnData<'static>) -> Option<Self> {
        match data {
            ColumnData::U8(n) => n.map(i64::from),
            ColumnData::I16(n) => n.map(i64::from),
            ColumnData::I32(n) => n.map(i64::from),
            ColumnData::I64(n) => *n,
            _ => None,
        }
    }
}

impl Read for i32 {
    fn read(data: &ColumnData<'static>) -> Option<Self> {
        i64::read(data).and_then(|n| i32::try_from(n).ok())
    }
}

impl Read for bool {
    fn read(data: &ColumnData<'static>) -> Option<Self> {
        match data {
            ColumnData::Bit(bit) => *bit,
            other => i64::read(other).map(|n| n != 0),
        }
    }
}

impl Read for String {
    fn read(data: &ColumnData<'static>) -> Option<Self> {
        match data {
            ColumnData::String(text) => text.as_ref().map(|text| text.clone().into_owned()),
            _ => None,
        }
    }
}

impl Read for Uuid {
    fn read(data: &ColumnData<'static>) -> Option<Self> {
        match data {
            ColumnData::Guid(uuid) => *uuid,
            _ => None,
        }
    }
}

impl Read for OffsetDateTime {
    fn read(data: &ColumnData<'static>) -> Option<Self> {
        PrimitiveDateTime::from_sql(data).ok().flatten().map(PrimitiveDateTime::assume_utc)
    }
}

impl<T: Read> Read for Option<T> {
    fn read(data: &ColumnData<'static>) -> Option<Self> {
        if is_null(data) { Some(None) } else { T::read(data).map(Some) }
    }
}

fn is_null(data: &ColumnData<'static>) -> bool {
    match data {
        ColumnData::U8(n) => n.is_none(),
        ColumnData::I16(n) => n.is_none(),
        ColumnData::I32(n) => n.is_none(),
        ColumnData::I64(n) => n.is_none(),
        ColumnData::Bit(bit) => bit.is_none(),
        ColumnData::String(text) => text.is_none(),
        ColumnData::Guid(uuid) => uuid.is_none(),
        ColumnData::DateTime2(at) => at.is_none(),
        _ => false,
    }
}

/// One column, which may be NULL only if `T` is an `Option`.
pub(crate) fn get<T: Read>(row: &Row, column: &str) -> Result<T> {
    let data = row
        .get_column_data(column)
        .map_err(|_| Error::new(ErrorKind::Internal, format!("the routine answered no column {column}")))?;
    T::read(data).ok_or_else(|| {
        Error::new(ErrorKind::Internal, format!("column {column} has another type, or is NULL"))
    })
}

/// The place of an answer in the request, from 0.
pub(crate) fn place(row: &Row) -> Result<usize> {
    Ok(usize::try_from(get::<i64>(row, "place")? - 1).unwrap_or(usize::MAX))
}

fn instant(row: &Row, column: &str) -> Result<OffsetDateTime> {
    get(row, column)
}

fn optional_instant(row: &Row, column: &str) -> Result<Option<OffsetDateTime>> {
    get(row, column)
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

pub(crate) fn enqueued(row: &Row) -> Result<Enqueued> {
    Ok(Enqueued { id: JobId(get(row, "id")?), created: get(row, "created")? })
}

pub(crate) fn claimed_job(row: &Row) -> Result<ClaimedJob> {
    let proof = Proof {
        job: JobId(get(row, "id")?),
        attempt: get(row, "attempt")?,
        token: Token::new(get::<Uuid>(row, "token")?)?,
    };
    Ok(ClaimedJob {
        proof,
        queue: get(row, "queue")?,
        kind: get(row, "kind")?,
        payload: get(row, "payload")?,
        priority: get(row, "priority")?,
        failures: unsigned(row, "failures")?,
        max_attempts: unsigned(row, "max_attempts")?,
        operation_id: get::<Uuid>(row, "operation_id")?,
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

pub(crate) fn pruned(row: &Row) -> Result<Pruned> {
    let count = |column: &str| Ok(get::<i64>(row, column)?.max(0) as u64);
    Ok(Pruned { jobs: count("jobs")?, refused: count("refused")?, schedule_runs: count("schedule_runs")? })
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
        operation_id: get::<Uuid>(row, "operation_id")?,
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

#[cfg(test)]
mod tests {
    use time::macros::offset;

    use super::*;

    #[test]
    fn an_instant_is_sent_in_utc_and_to_the_microsecond() {
        assert_eq!(text(datetime!(2026-01-31 01:30:00.0015 +02:00)), "2026-01-30T23:30:00.001500");
        assert_eq!(text(datetime!(9999-12-31 23:59:59.999 UTC)), "9999-12-31T23:59:59.999000");
        let beyond = datetime!(9999-12-31 23:59:59 UTC).replace_offset(offset!(-10));
        assert!(*text(beyond) > *"9999-12-31T23:59:59.999", "the routine must refuse it");
    }

    #[test]
    fn numbers_of_any_width_and_null_are_read_as_what_they_are() {
        assert_eq!(i64::read(&ColumnData::I32(Some(7))), Some(7));
        assert_eq!(bool::read(&ColumnData::I32(Some(1))), Some(true));
        assert_eq!(Option::<i64>::read(&ColumnData::I32(None)), Some(None));
        assert_eq!(i64::read(&ColumnData::I64(None)), None);
        assert_eq!(i64::read(&ColumnData::String(Some("7".into()))), None);
        assert_eq!(Option::<String>::read(&ColumnData::String(None)), Some(None));
    }
}
