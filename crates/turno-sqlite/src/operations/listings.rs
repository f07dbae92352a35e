//! Looking at jobs, attempts and the ledger (rules V2, O6). Nothing here shows a token.

use rusqlite::Row;
use turno_contract::{
    AttemptRecord, JobFilter, JobId, JobRecord, JobsPage, KeySearch, RefusedRecord, Result, State, limits,
};

use crate::rows::Columns;
use crate::work::{Params, Work};

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

/// A page of jobs in one state, newest id first (rule V6).
pub(crate) fn jobs(work: &Work, filter: &JobFilter) -> Result<JobsPage> {
    let before = filter.before.map_or(i64::MAX, |id| id.0);
    let state = filter.state.as_str();
    let (scan, stop) = match filter.state {
        State::Scheduled | State::Ready | State::Running => ("jobs.waiting", "jobs.waiting_stop"),
        State::Succeeded => ("jobs.ended", "jobs.ended_stop"),
        State::Dead | State::Cancelled => ("jobs.trouble", "jobs.trouble_stop"),
    };
    let params: Params = &[
        (":state", &state),
        (":before", &before),
        (":queue", &filter.queue),
        (":kind", &filter.kind),
        (":limit", &filter.limit),
    ];
    let ids = work.rows(scan, params, |row| row.get(0))?;
    if ids.len() == filter.limit as usize {
        return page(work, ids, None);
    }
    let of_state = matches!(filter.state, State::Dead | State::Cancelled);
    let stop_params: Params = if of_state { &params[..2] } else { &params[1..2] };
    let stop = work.row(stop, stop_params, |row| row.get(0))?;
    match stop {
        None => page(work, ids, None),
        Some(stop) => match few(work, filter, before)? {
            Some(ids) => page(work, ids, None),
            None => page(work, ids, Some(stop)),
        },
    }
}

/// The page out of the jobs that an index can name, if those are few; ended jobs have such an index by queue only.
fn few(work: &Work, filter: &JobFilter, before: i64) -> Result<Option<Vec<i64>>> {
    let cap = limits::LOOKED_AT_MAX as i64;
    let mut found: Vec<(i64, String)> = Vec::new();
    if filter.state == State::Running {
        let all = work.rows("jobs.few_running", &[(":limit", &(cap + 1))], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get::<_, String>(2)?))
        })?;
        if all.len() as i64 > cap {
            return Ok(None);
        }
        let wanted = |queue: &String| filter.queue.as_ref().is_none_or(|of| of == queue);
        found.extend(all.into_iter().filter(|(_, _, queue)| wanted(queue)).map(|(id, kind, _)| (id, kind)));
    } else {
        if filter.state.is_final() && filter.queue.is_none() {
            return Ok(None);
        }
        for queue in queues(work, filter.queue.as_ref())? {
            let limit = cap + 1 - found.len() as i64;
            let state = filter.state.as_str();
            let params: Params = &[(":queue", &queue), (":limit", &limit), (":state", &state)];
            let (statement, params) = match filter.state {
                State::Ready => ("jobs.few_ready", &params[..2]),
                State::Scheduled => ("jobs.few_scheduled", &params[..2]),
                _ => ("jobs.few_ended", params),
            };
            found.extend(work.rows(statement, params, |row| Ok((row.get(0)?, row.get(1)?)))?);
            if found.len() as i64 > cap {
                return Ok(None);
            }
        }
    }
    let fits = |id: i64, kind: &String| id < before && filter.kind.as_ref().is_none_or(|of| of == kind);
    let mut ids: Vec<i64> =
        found.into_iter().filter(|(id, kind)| fits(*id, kind)).map(|(id, _)| id).collect();
    ids.sort_by_key(|id| std::cmp::Reverse(*id));
    ids.truncate(filter.limit as usize);
    Ok(Some(ids))
}

/// A page of the jobs with a key, newest id first (rule V7).
pub(crate) fn find(work: &Work, search: &KeySearch) -> Result<JobsPage> {
    let before = search.before.map_or(i64::MAX, |id| id.0);
    let key = &search.key;
    let params: Params =
        &[(":key", key), (":before", &before), (":queue", &search.queue), (":limit", &search.limit)];
    let mut ids: Vec<i64> = work.rows("find.ended", params, |row| row.get(0))?;
    let is_full = ids.len() == search.limit as usize;
    for queue in queues(work, search.queue.as_ref())? {
        let params: Params = &[(":queue", &queue), (":key", key), (":before", &before)];
        ids.extend(work.rows("find.of_queue", params, |row| row.get::<_, i64>(0))?);
    }
    let stop = match search.queue {
        Some(_) if !is_full => work.row("find.ended_stop", &params[..2], |row| row.get(0))?,
        _ => None,
    };
    ids.sort_by_key(|id| std::cmp::Reverse(*id));
    ids.dedup();
    // What the search has not come to yet is for the next page, which begins below the place where it stopped.
    ids.retain(|id| stop.is_none_or(|stop| *id >= stop));
    ids.truncate(search.limit as usize);
    let stop = stop.filter(|_| ids.len() < search.limit as usize);
    page(work, ids, stop)
}

/// This queue, or every one.
fn queues(work: &Work, only: Option<&String>) -> Result<Vec<String>> {
    match only {
        Some(queue) => Ok(vec![queue.clone()]),
        None => work.rows("stats.queues", &[], |row| row.get(0)),
    }
}

fn page(work: &Work, ids: Vec<i64>, stop: Option<i64>) -> Result<JobsPage> {
    let mut jobs = Vec::with_capacity(ids.len());
    for id in ids {
        jobs.extend(job(work, JobId(id))?);
    }
    Ok(JobsPage { jobs, searched_to: stop.map(JobId) })
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
