//! Adding jobs (rules E1..E11).

use std::collections::HashMap;

use turno_contract::{Enqueued, Error, JobId, NewJob, Result, limits};
use uuid::Uuid;

use crate::rows::{Settings, micros_rounded_up, millis_rounded_up};
use crate::work::Work;

/// Errors with `InvalidArgument` if a client can see that a job cannot be accepted.
pub(crate) fn check(jobs: &[NewJob], payload_bytes_max: usize) -> Result<()> {
    if jobs.len() > limits::ENQUEUE_JOBS_MAX {
        let (n, max) = (jobs.len(), limits::ENQUEUE_JOBS_MAX);
        return Err(Error::invalid(format!("one call enqueues at most {max} jobs, not {n}")));
    }
    let bytes: usize = jobs.iter().map(|job| job.payload.len()).sum();
    if bytes > limits::ENQUEUE_BYTES_MAX {
        let max = limits::ENQUEUE_BYTES_MAX;
        return Err(Error::invalid(format!("one call enqueues at most {max} bytes of payload, not {bytes}")));
    }
    for (row, job) in jobs.iter().enumerate() {
        job.check(payload_bytes_max).map_err(|error| of_row(row, error))?;
    }
    Ok(())
}

/// Adds all the jobs, or errors.
pub(crate) fn enqueue(work: &Work, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
    let mut settings = HashMap::new();
    let mut answers = Vec::with_capacity(jobs.len());
    for (row, job) in jobs.iter().enumerate() {
        let settings = match settings.get(&job.queue) {
            Some(settings) => settings,
            None => settings.entry(job.queue.clone()).or_insert(queue_settings(work, &job.queue)?),
        };
        answers.push(one(work, job, settings).map_err(|error| of_row(row, error))?);
    }
    Ok(answers)
}

/// The settings that apply to this queue.
pub(crate) fn queue_settings(work: &Work, queue: &str) -> Result<Settings> {
    work.one("settings.of_queue", &[(":queue", &queue)], Settings::read)
}

/// Errors with `InvalidArgument` if the queue's settings refuse such a job.
pub(crate) fn check_queue_limits(work: &Work, job: &NewJob) -> Result<()> {
    Wanted::new(work, job, &queue_settings(work, &job.queue)?).map(drop)
}

fn of_row(row: usize, error: Error) -> Error {
    let message = format!("row {}: {}", row + 1, error.message());
    Error::new(error.kind(), message).with_source(error)
}

fn one(work: &Work, job: &NewJob, settings: &Settings) -> Result<Enqueued> {
    let wanted = Wanted::new(work, job, settings)?;
    let queue = &job.queue;
    if let Some(key) = &job.idempotency_key {
        let found = work.row("enqueue.find_key", &[(":queue", queue), (":key", key)], |row| row.get(0))?;
        if let Some(id) = found {
            return Ok(Enqueued { id: JobId(id), created: false });
        }
    }
    let found = match &job.unique_key {
        Some(key) => {
            work.row("enqueue.find_unique", &[(":queue", queue), (":unique_key", key)], |row| row.get(0))?
        }
        None => None,
    };
    let id = match found {
        Some(id) => id,
        None => insert(work, job, &wanted)?,
    };
    if let Some(key) = &job.idempotency_key {
        work.execute("enqueue.insert_key", &[(":queue", queue), (":key", key), (":job", &id)])?;
    }
    Ok(Enqueued { id: JobId(id), created: found.is_none() })
}

/// What a job asks for, with the queue's defaults filled in and its limits kept.
struct Wanted {
    run_at: i64,
    max_attempts: u32,
    max_run_ms: i64,
    step: i64,
}

impl Wanted {
    fn new(work: &Work, job: &NewJob, settings: &Settings) -> Result<Self> {
        let max_attempts = job.max_attempts.unwrap_or(settings.max_attempts);
        if max_attempts > settings.max_attempts_limit {
            let limit = settings.max_attempts_limit;
            return Err(Error::invalid(format!(
                "max_attempts {max_attempts} is above the queue's limit {limit}"
            )));
        }
        let max_run_ms = match job.max_run {
            Some(max_run) => millis_rounded_up("max_run", max_run, limits::MAX_RUN_MAX)?,
            None => settings.max_run_ms,
        };
        if max_run_ms > settings.max_run_limit_ms {
            let limit = settings.max_run_limit_ms;
            return Err(Error::invalid(format!(
                "max_run {max_run_ms} ms is above the queue's limit {limit} ms"
            )));
        }
        let run_at = job.run_at.map_or(work.now, micros_rounded_up).max(work.now);
        if let Some(horizon) = settings.run_at_horizon_ms
            && run_at - work.now > horizon * 1000
        {
            return Err(Error::invalid(format!(
                "run_at lies further ahead than the queue's limit {horizon} ms"
            )));
        }
        Ok(Wanted { run_at, max_attempts, max_run_ms, step: settings.step() })
    }
}

fn insert(work: &Work, job: &NewJob, wanted: &Wanted) -> Result<i64> {
    work.execute(
        "enqueue.insert",
        &[
            (":queue", &job.queue),
            (":kind", &job.kind),
            (":payload", &job.payload),
            (":run_at", &wanted.run_at),
            (":priority", &job.priority.unwrap_or(0)),
            (":max_attempts", &wanted.max_attempts),
            (":max_run_ms", &wanted.max_run_ms),
            (":unique_key", &job.unique_key),
            (":operation_id", &Uuid::new_v4().as_bytes().as_slice()),
            (":traceparent", &job.traceparent_kept()),
            (":step", &wanted.step),
            (":now", &work.now),
        ],
    )?;
    if wanted.run_at <= work.now {
        work.ring();
    }
    Ok(work.connection().last_insert_rowid())
}
