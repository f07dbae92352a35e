//! Looking at jobs, attempts and the ledger (rules V2, O6). Nothing here shows a token.

use rusqlite::Row;
use turno_contract::{AttemptRecord, JobFilter, JobId, JobRecord, RefusedRecord, Result, State, limits};

use crate::rows::Columns;
use crate::work::Work;

/// One job, wherever it is in its life.
pub(crate) fn job(work: &Work, job: JobId) -> Result<Option<JobRecord>> {
    work.row("job.find", &[(":job", &job.0)], record)
}

fn record(row: &Row) -> rusqlite::Result<JobRecord> {
    let mut columns = Columns::of(row);
    Ok(JobRecord {
        id: columns.job()?,
        queue: columns.text()?,
        kind: columns.text()?,
        state: columns.state()?,
        payload: columns.text_opt()?,
        priority: columns.small()?,
        attempt: columns.value()?,
        failures: columns.small()?,
        max_attempts: columns.small()?,
        max_run: columns.millis()?,
        operation_id: columns.uuid()?,
        unique_key: columns.text_opt()?,
        created_at: columns.instant()?,
        run_at: columns.instant()?,
        worker: columns.text_opt()?,
        claimed_at: columns.instant_opt()?,
        lease_until: columns.instant_opt()?,
        cancel_requested_at: columns.instant_opt()?,
        finished_at: columns.instant_opt()?,
        result: columns.text_opt()?,
        error: columns.text_opt()?,
        traceparent: columns.text_opt()?,
    })
}

/// A page of jobs, newest id first.
pub(crate) fn jobs(work: &Work, filter: &JobFilter) -> Result<Vec<JobRecord>> {
    let before = filter.before.map_or(i64::MAX, |id| id.0);
    let limit = filter.limit.min(limits::PAGE_ROWS_MAX);
    let state = filter.state.as_str();
    let (queue, kind) = (&filter.queue, &filter.kind);
    let statement = match filter.state {
        State::Scheduled | State::Ready => "jobs.waiting",
        State::Running => "jobs.running",
        State::Succeeded => "jobs.succeeded",
        State::Dead | State::Cancelled => "jobs.trouble",
    };
    let params: [(&str, &dyn rusqlite::ToSql); 5] =
        [(":queue", queue), (":kind", kind), (":before", &before), (":limit", &limit), (":state", &state)];
    let named_by_state = matches!(filter.state, State::Running | State::Succeeded);
    let params = if named_by_state { &params[..4] } else { &params[..] };
    let ids: Vec<i64> = work.rows(statement, params, |row| row.get(0))?;
    let mut records = Vec::with_capacity(ids.len());
    for id in ids {
        records.extend(job(work, JobId(id))?);
    }
    Ok(records)
}

/// The ended attempts of one job, in order.
pub(crate) fn attempts(work: &Work, job: JobId) -> Result<Vec<AttemptRecord>> {
    work.rows("attempts.list", &[(":job", &job.0)], |row| {
        let mut columns = Columns::of(row);
        Ok(AttemptRecord {
            attempt: columns.value()?,
            worker: columns.text_opt()?,
            claimed_at: columns.instant()?,
            started_at: columns.instant_opt()?,
            ended_at: columns.instant()?,
            verb: columns.verb()?,
            charged: columns.value()?,
            error: columns.text_opt()?,
            error_bytes: columns.value()?,
        })
    })
}

/// A page of the ledger of refused results, newest first.
pub(crate) fn refused(
    work: &Work,
    job: Option<JobId>,
    before: Option<i64>,
    limit: u32,
) -> Result<Vec<RefusedRecord>> {
    let before = before.unwrap_or(i64::MAX);
    let limit = limit.min(limits::PAGE_ROWS_MAX);
    match job {
        Some(job) => work.rows(
            "refused.of_job",
            &[(":job", &job.0), (":before", &before), (":limit", &limit)],
            refused_record,
        ),
        None => work.rows("refused.all", &[(":before", &before), (":limit", &limit)], refused_record),
    }
}

fn refused_record(row: &Row) -> rusqlite::Result<RefusedRecord> {
    let mut columns = Columns::of(row);
    Ok(RefusedRecord {
        id: columns.value()?,
        job: columns.job()?,
        attempt: columns.value()?,
        verb: columns.verb()?,
        worker: columns.text_opt()?,
        reason: columns.text()?,
        detail: columns.text_opt()?,
        owner: columns.text_opt()?,
        owner_attempt: columns.value()?,
        state: columns.state_opt()?,
        times: columns.value()?,
        first_at: columns.instant()?,
        last_at: columns.instant()?,
    })
}
