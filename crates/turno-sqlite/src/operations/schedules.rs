//! Schedules: what is due, and one job for each instant (rules K1..K8). Refuses to know any calendar.

use std::time::Duration;

use rusqlite::Row;
use time::OffsetDateTime;
use turno_contract::{
    DueSchedule, DueSchedules, Error, ErrorKind, Fired, Firing, JobId, Missed, NewJob, PutAnswer, Result,
    Schedule, ScheduleRecord, limits,
};

use crate::operations::enqueue;
use crate::rows::{Columns, instant, micros_of, millis_rounded_up};
use crate::work::Work;

/// Creates or changes a schedule. The job that it makes must be one that the queue takes now.
pub(crate) fn put(work: &Work, schedule: &Schedule) -> Result<PutAnswer> {
    enqueue::check_queue_limits(work, &job(schedule, schedule.payload.clone()))?;
    let (missed, missed_limit) = schedule.missed.parts();
    let max_run_ms =
        schedule.max_run.map(|time| millis_rounded_up("max_run", time, limits::MAX_RUN_MAX)).transpose()?;
    let revision: Option<i64> = work.row(
        "schedule_put.put",
        &[
            (":name", &schedule.name),
            (":cron", &schedule.cron),
            (":zone", &schedule.zone),
            (":queue", &schedule.queue),
            (":kind", &schedule.kind),
            (":payload", &schedule.payload),
            (":priority", &schedule.priority),
            (":max_attempts", &schedule.max_attempts),
            (":max_run_ms", &max_run_ms),
            (":unique_key", &schedule.unique_key),
            (":missed", &missed),
            (":missed_limit", &missed_limit),
            (":now", &work.now),
        ],
        |row| row.get(0),
    )?;
    if revision.is_some() {
        work.ring();
    }
    Ok(match revision {
        None => PutAnswer::Unchanged,
        Some(1) => PutAnswer::Created,
        Some(_) => PutAnswer::Changed,
    })
}

/// A page by name, or the one of this name.
pub(crate) fn list(
    work: &Work,
    name: Option<&str>,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<ScheduleRecord>> {
    match name {
        Some(name) => work.rows("schedule_list.one", &[(":name", &name)], record),
        None => {
            let after = after.unwrap_or_default();
            work.rows("schedule_list.page", &[(":after", &after), (":limit", &limit)], record)
        }
    }
}

/// Nothing of it is fired from now on.
pub(crate) fn pause(work: &Work, name: &str) -> Result<()> {
    found(name, work.execute("schedule_pause.mark", &[(":name", &name), (":now", &work.now)])?)
}

/// Ends a pause.
pub(crate) fn resume(work: &Work, name: &str) -> Result<()> {
    if work.execute("schedule_resume.unmark", &[(":name", &name), (":now", &work.now)])? > 0 {
        work.ring();
        return Ok(());
    }
    let there = work.row("schedule_resume.find", &[(":name", &name)], |row| row.get::<_, i64>(0))?;
    found(name, usize::from(there.is_some()))
}

/// Removes it.
pub(crate) fn remove(work: &Work, name: &str) -> Result<()> {
    found(name, work.execute("schedule_remove.remove", &[(":name", &name)])?)
}

fn found(name: &str, rows: usize) -> Result<()> {
    match rows {
        0 => Err(Error::new(ErrorKind::NotFound, format!("there is no schedule {name:?}"))),
        _ => Ok(()),
    }
}

/// What is due.
pub(crate) fn due(work: &Work, limit: u32) -> Result<DueSchedules> {
    let schedules = work.rows("schedule_due.due", &[(":now", &work.now), (":limit", &limit)], due_row)?;
    let next: Option<i64> = work.row("schedule_due.next", &[(":now", &work.now)], |row| row.get(0))?;
    Ok(DueSchedules {
        now: instant(work.now),
        schedules,
        next_in: next.map(|next| Duration::from_micros((next - work.now).max(0) as u64)),
    })
}

/// Makes instants jobs, if the schedule is still what was seen.
pub(crate) fn fire(work: &Work, firing: &Firing) -> Result<Fired> {
    let params: crate::work::Params = &[(":name", &firing.name), (":revision", &firing.revision)];
    let Some((job, done_until)) = work.row("schedule_fire.seen", params, seen_row)? else {
        return Ok(Fired::Already);
    };
    check(work, firing, done_until)?;
    let mut jobs = Vec::with_capacity(firing.instants.len());
    for at in &firing.instants {
        jobs.extend(fire_one(work, firing, *at, &job)?.map(|id| (*at, id)));
    }
    let last = jobs.last();
    work.execute(
        "schedule_fire.move",
        &[
            (":name", &firing.name),
            (":until", &micros_of(firing.until)),
            (":next_at", &firing.next_at.map(micros_of)),
            (":last_at", &last.map(|(at, _)| micros_of(*at))),
            (":last_job", &last.map(|(_, id)| id.0)),
        ],
    )?;
    Ok(Fired::Done(jobs.into_iter().map(|(_, id)| id).collect()))
}

/// Errors with `InvalidArgument` for instants that cannot be.
fn check(work: &Work, firing: &Firing, done_until: OffsetDateTime) -> Result<()> {
    let until = firing.until;
    let bad = micros_of(until) > work.now
        || until < done_until
        || firing.next_at.is_some_and(|next| next <= until)
        || firing.instants.len() > limits::SCHEDULE_RUNS_MAX as usize
        || firing.instants.iter().any(|at| *at <= done_until || *at > until)
        || !firing.instants.is_sorted();
    if bad {
        return Err(Error::invalid(format!(
            "schedule {:?} cannot fire these instants: at most 100, after done_until, and not ahead of the clock",
            firing.name
        )));
    }
    Ok(())
}

/// One instant becomes a job, unless it is one already.
fn fire_one(work: &Work, firing: &Firing, at: OffsetDateTime, job: &NewJob) -> Result<Option<JobId>> {
    let (name, at) = (&firing.name, micros_of(at));
    let there =
        work.row("schedule_fire.found", &[(":name", name), (":instant", &at)], |row| row.get::<_, i64>(0))?;
    if there.is_some() {
        return Ok(None);
    }
    let payload: String =
        work.one("schedule_fire.payload", &[(":payload", &job.payload), (":instant", &at)], |row| {
            row.get(0)
        })?;
    let enqueued = enqueue::enqueue(work, &[NewJob { payload, ..job.clone() }])?;
    let id = enqueued.first().map(|answer| answer.id);
    let id = id.ok_or_else(|| Error::new(ErrorKind::Internal, "no answer for one job"))?;
    work.execute(
        "schedule_fire.run",
        &[(":name", name), (":instant", &at), (":job", &id.0), (":now", &work.now)],
    )?;
    Ok(Some(id))
}

fn job(schedule: &Schedule, payload: String) -> NewJob {
    NewJob {
        priority: Some(schedule.priority),
        max_attempts: schedule.max_attempts,
        max_run: schedule.max_run,
        unique_key: schedule.unique_key.clone(),
        ..NewJob::new(&schedule.queue, &schedule.kind, payload)
    }
}

fn seen_row(row: &Row) -> rusqlite::Result<(NewJob, OffsetDateTime)> {
    let mut columns = Columns::of(row);
    let mut job = NewJob::new(columns.text()?, columns.text()?, columns.text()?);
    job.priority = Some(columns.small()?);
    job.max_attempts = columns.value()?;
    job.max_run = columns.millis_opt()?;
    job.unique_key = columns.text_opt()?;
    Ok((job, columns.instant()?))
}

fn missed(columns: &mut Columns) -> rusqlite::Result<Missed> {
    let (word, limit) = (columns.text()?, columns.value()?);
    // A CHECK keeps the word.
    Ok(Missed::from_parts(&word, limit).unwrap_or(Missed::Latest))
}

fn due_row(row: &Row) -> rusqlite::Result<DueSchedule> {
    let mut columns = Columns::of(row);
    Ok(DueSchedule {
        name: columns.text()?,
        cron: columns.text()?,
        zone: columns.text()?,
        missed: missed(&mut columns)?,
        revision: columns.value()?,
        done_until: columns.instant()?,
        next_at: columns.instant()?,
    })
}

fn record(row: &Row) -> rusqlite::Result<ScheduleRecord> {
    let mut columns = Columns::of(row);
    let schedule = Schedule {
        name: columns.text()?,
        cron: columns.text()?,
        zone: columns.text()?,
        queue: columns.text()?,
        kind: columns.text()?,
        payload: columns.text()?,
        priority: columns.small()?,
        max_attempts: columns.value()?,
        max_run: columns.millis_opt()?,
        unique_key: columns.text_opt()?,
        missed: missed(&mut columns)?,
    };
    Ok(ScheduleRecord {
        schedule,
        revision: columns.value()?,
        done_until: columns.instant()?,
        next_at: columns.instant_opt()?,
        paused_at: columns.instant_opt()?,
        last_at: columns.instant_opt()?,
        last_job: columns.value::<Option<i64>>()?.map(JobId),
        created_at: columns.instant()?,
        updated_at: columns.instant()?,
    })
}
