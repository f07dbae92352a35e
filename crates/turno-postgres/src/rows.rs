//! Rows of the routines as the contract's types. Columns are read by name; a name that is missing is a bug of ours.

use std::time::Duration;

use time::OffsetDateTime;
use tokio_postgres::Row;
use turno_contract::{
    AttemptRecord, CancelAnswer, ClaimedJob, Count, Enqueued, Error, ErrorKind, Finding, HeartbeatAnswer,
    JobId, JobRecord, JobsPage, Keep, LeaseLoss, Proof, QueueSettings, QueueStats, RefusedRecord, Result,
    Settled, SettledStatus, Token, Unhandled, limits,
};

pub(crate) fn millis(ms: i64) -> Duration {
    Duration::from_millis(ms.max(0) as u64)
}

fn optional_millis(row: &Row, column: &str) -> Option<Duration> {
    row.get::<_, Option<i64>>(column).map(millis)
}

fn word<T: std::str::FromStr<Err = Error>>(row: &Row, column: &str) -> Result<T> {
    row.get::<_, &str>(column).parse().map_err(unexpected)
}

fn optional_word<T: std::str::FromStr<Err = Error>>(row: &Row, column: &str) -> Result<Option<T>> {
    row.get::<_, Option<&str>>(column).map(|text| text.parse().map_err(unexpected)).transpose()
}

pub(crate) fn unexpected(error: Error) -> Error {
    Error::new(ErrorKind::Internal, format!("the database answered with an unknown word: {error}"))
}

fn unsigned(row: &Row, column: &str) -> u32 {
    row.get::<_, i32>(column).max(0) as u32
}

pub(crate) fn enqueued(row: &Row) -> Enqueued {
    Enqueued { id: JobId(row.get("id")), created: row.get("created") }
}

pub(crate) fn claimed_job(row: &Row) -> Result<ClaimedJob> {
    let proof = Proof {
        job: JobId(row.get("id")),
        attempt: row.get("attempt"),
        token: Token::new(row.get("token"))?,
    };
    Ok(ClaimedJob {
        proof,
        queue: row.get("queue"),
        kind: row.get("kind"),
        payload: row.get("payload"),
        priority: row.get("priority"),
        failures: unsigned(row, "failures"),
        max_attempts: unsigned(row, "max_attempts"),
        operation_id: row.get("operation_id"),
        run_at: row.get("run_at"),
        created_at: row.get("created_at"),
        claimed_at: row.get("claimed_at"),
        lease_until: row.get("lease_until"),
        max_run: millis(row.get("max_run_ms")),
        rank: row.get("rank"),
        traceparent: row.get("traceparent"),
    })
}

pub(crate) fn heartbeat(row: &Row) -> Result<HeartbeatAnswer> {
    Ok(match row.get::<_, &str>("answer") {
        "held" => HeartbeatAnswer::Held {
            until: row.get("held_until"),
            held_for: millis(row.get("held_for_ms")),
            cancel_requested: row.get("cancel_requested"),
        },
        "busy" => HeartbeatAnswer::Busy,
        "lost" => HeartbeatAnswer::Lost,
        "finished" => HeartbeatAnswer::Finished,
        other => return Err(unexpected(Error::invalid(other))),
    })
}

pub(crate) fn settled(row: &Row) -> Result<Settled> {
    Ok(Settled {
        status: match row.get::<_, &str>("status") {
            "done" => SettledStatus::Done,
            "already" => SettledStatus::Already,
            "refused" => SettledStatus::Refused,
            "gone" => SettledStatus::Gone,
            other => return Err(unexpected(Error::invalid(other))),
        },
        state: optional_word(row, "state")?,
        run_at: row.get("run_at"),
        reason: row.try_get("reason").unwrap_or(None),
    })
}

pub(crate) fn lease_loss(row: &Row) -> Result<LeaseLoss> {
    Ok(LeaseLoss { job: JobId(row.get("job_id")), attempt: row.get("attempt"), state: word(row, "state")? })
}

pub(crate) fn cancel(row: &Row) -> Result<CancelAnswer> {
    Ok(match row.get::<_, &str>("answer") {
        "cancelled" => CancelAnswer::Cancelled,
        "requested" => CancelAnswer::Requested,
        _ => CancelAnswer::TooLate(word(row, "state")?),
    })
}

pub(crate) fn queue_settings(row: &Row) -> QueueSettings {
    let keep = |column: &str| match row.get::<_, i64>(column) {
        -1 => Keep::Forever,
        ms => Keep::For(millis(ms)),
    };
    QueueSettings {
        queue: Some(row.get::<_, String>("queue")).filter(|queue| !queue.is_empty()),
        description: row.get("description"),
        paused_at: row.get("paused_at"),
        aging: optional_millis(row, "aging_ms"),
        max_attempts: unsigned(row, "max_attempts"),
        max_run: millis(row.get("max_run_ms")),
        retry_base: millis(row.get("retry_base_ms")),
        retry_cap: millis(row.get("retry_cap_ms")),
        max_attempts_limit: unsigned(row, "max_attempts_limit"),
        max_run_limit: millis(row.get("max_run_limit_ms")),
        run_at_horizon: optional_millis(row, "run_at_horizon_ms"),
        keep_succeeded: keep("keep_succeeded_ms"),
        keep_cancelled: keep("keep_cancelled_ms"),
        keep_dead: keep("keep_dead_ms"),
        receipts: millis(row.get("receipts_ms")),
    }
}

pub(crate) fn queue_stats(row: &Row) -> QueueStats {
    let count = |column: &str| {
        let n = row.get::<_, i64>(column).max(0) as u64;
        Count { n, capped: n >= limits::STATS_COUNT_CAP }
    };
    QueueStats {
        queue: row.get("queue"),
        paused: row.get("paused"),
        oldest_due_age: optional_millis(row, "oldest_due_age_ms"),
        ready: count("ready"),
        scheduled: count("scheduled"),
        running: count("running"),
        expired: count("expired"),
        succeeded: count("succeeded"),
        dead: count("dead"),
        cancelled: count("cancelled"),
        retries: count("retries"),
        refused: count("refused"),
        start_p50: optional_millis(row, "start_p50_ms"),
        start_p99: optional_millis(row, "start_p99_ms"),
        finish_p50: optional_millis(row, "finish_p50_ms"),
        finish_p99: optional_millis(row, "finish_p99_ms"),
    }
}

pub(crate) fn finding(row: &Row) -> Finding {
    Finding {
        check: row.get("check_name"),
        rows: row.get::<_, i64>("row_count").max(0) as u64,
        example: row.get::<_, Option<i64>>("example").map(JobId),
        meaning: row.get("meaning"),
    }
}

pub(crate) fn unhandled(queue: &str, row: &Row) -> Unhandled {
    let n = row.get::<_, i64>("jobs").max(0) as u64;
    Unhandled {
        queue: queue.to_owned(),
        kind: row.get("kind"),
        jobs: Count { n, capped: n >= limits::STATS_COUNT_CAP },
        example: JobId(row.get("example")),
    }
}

pub(crate) fn job_record(row: &Row) -> Result<JobRecord> {
    Ok(JobRecord {
        id: JobId(row.get("id")),
        queue: row.get("queue"),
        kind: row.get("kind"),
        state: word(row, "state")?,
        payload: row.get("payload"),
        priority: row.get("priority"),
        attempt: row.get("attempt"),
        failures: unsigned(row, "failures"),
        max_attempts: unsigned(row, "max_attempts"),
        max_run: millis(row.get("max_run_ms")),
        operation_id: row.get("operation_id"),
        unique_key: row.get("unique_key"),
        created_at: row.get("created_at"),
        run_at: row.get("run_at"),
        worker: row.get("worker"),
        claimed_at: row.get("claimed_at"),
        lease_until: row.get("lease_until"),
        cancel_requested_at: row.get("cancel_requested_at"),
        finished_at: row.get("finished_at"),
        result: row.get("result"),
        error: row.get("error"),
        traceparent: row.get("traceparent"),
    })
}

/// A page; a row that has nothing but an id says that the search stopped there (rule V6).
pub(crate) fn jobs_page(rows: &[Row]) -> Result<JobsPage> {
    let mut page = JobsPage::default();
    for row in rows {
        if row.get::<_, Option<&str>>("state").is_none() {
            page.searched_to = Some(JobId(row.get("id")));
        } else {
            page.jobs.push(job_record(row)?);
        }
    }
    Ok(page)
}

pub(crate) fn attempt(row: &Row) -> Result<AttemptRecord> {
    Ok(AttemptRecord {
        attempt: row.get("attempt"),
        worker: row.get("worker"),
        // Only a job cancelled while it waited has none, and that is no attempt.
        claimed_at: row.get::<_, Option<OffsetDateTime>>("claimed_at").unwrap_or(OffsetDateTime::UNIX_EPOCH),
        started_at: row.get("started_at"),
        ended_at: row.get("ended_at"),
        verb: word(row, "verb")?,
        charged: row.get("charged"),
        error: row.get("error"),
        error_bytes: row.get("error_bytes"),
    })
}

pub(crate) fn refused(row: &Row) -> Result<RefusedRecord> {
    Ok(RefusedRecord {
        id: row.get("id"),
        job: JobId(row.get("job_id")),
        attempt: row.get("attempt"),
        verb: word(row, "verb")?,
        worker: row.get("worker"),
        reason: row.get("reason"),
        detail: row.get("detail"),
        owner: row.get("owner"),
        owner_attempt: row.get("owner_attempt"),
        state: optional_word(row, "state")?,
        times: row.get("times"),
        first_at: row.get("first_at"),
        last_at: row.get("last_at"),
    })
}
