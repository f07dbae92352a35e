//! What an operator does to one job: cancel, retry, reprioritize, forget (rules P1..P4, P7).

use turno_contract::{CancelAnswer, Error, ErrorKind, JobId, Result, State, Verb, limits};

use crate::operations::end_attempt::{self, Ending, end_attempt};
use crate::operations::enqueue::queue_settings;
use crate::rows::Columns;
use crate::work::Work;

/// Cancels a waiting job; asks a running one to stop, or revokes it.
pub(crate) fn cancel(work: &Work, job: JobId, force: bool) -> Result<CancelAnswer> {
    let state = state_of(work, job)?;
    let ending = match state {
        State::Succeeded | State::Dead | State::Cancelled => return Ok(CancelAnswer::TooLate(state)),
        State::Running if !force => {
            work.execute("cancel.request", &[(":job", &job.0), (":now", &work.now)])?;
            return Ok(CancelAnswer::Requested);
        }
        State::Running => Ending { verb: Some(Verb::Revoke), ..Ending::default() },
        State::Scheduled | State::Ready => Ending::default(),
    };
    end_attempt(work, job.0, &ending)?;
    Ok(CancelAnswer::Cancelled)
}

/// Runs a dead job again.
pub(crate) fn retry(work: &Work, job: JobId) -> Result<()> {
    let id = job.0;
    let found = work.row("retry.find", &[(":job", &id)], |row| {
        let mut columns = Columns::of(row);
        let (outcome, queue, unique_key) = (columns.state()?, columns.text()?, columns.text_opt()?);
        Ok((outcome, queue, unique_key, columns.value::<i64>()?, columns.value::<bool>()?))
    })?;
    let Some((outcome, queue, unique_key, attempt, whole)) = found else {
        let state = state_of(work, job)?;
        return Err(conflict(format!("job {job} is {state}, not dead")));
    };
    if outcome != State::Dead {
        return Err(conflict(format!("job {job} is {outcome}, not dead")));
    }
    if !whole {
        return Err(conflict(format!("of job {job} only the receipt was kept, without its payload")));
    }
    if attempt >= i64::from(limits::ATTEMPTS_MAX) {
        return Err(conflict(format!("job {job} has had all of its {} attempts", limits::ATTEMPTS_MAX)));
    }
    if let Some(key) = unique_key {
        let holder =
            work.row("enqueue.find_unique", &[(":queue", &queue), (":unique_key", &key)], |row| row.get(0))?;
        if let Some(holder) = holder {
            let holder = JobId(holder);
            return Err(conflict(format!("the unique key {key:?} of job {job} is taken by job {holder}")));
        }
    }
    let step = queue_settings(work, &queue)?.step();
    work.execute("retry.record_attempt", &[(":job", &id)])?;
    work.execute("retry.trim_attempts", &[(":job", &id)])?;
    work.execute("retry.revive", &[(":job", &id), (":step", &step), (":now", &work.now)])?;
    work.execute("retry.leave", &[(":job", &id)])?;
    work.ring();
    Ok(())
}

/// Errors with `InvalidArgument` if the priority is outside its limits.
pub(crate) fn check_priority(priority: i32) -> Result<()> {
    let (min, max) = (limits::PRIORITY_MIN, limits::PRIORITY_MAX);
    if (min..=max).contains(&priority) {
        return Ok(());
    }
    Err(Error::invalid(format!("priority {priority} is not in {min}..={max}")))
}

/// Changes the priority of an unfinished job.
pub(crate) fn reprioritize(work: &Work, job: JobId, priority: i32) -> Result<()> {
    let changed = work.execute("reprioritize.change", &[(":job", &job.0), (":priority", &priority)])?;
    if changed == 0 {
        let state = state_of(work, job)?;
        return Err(conflict(format!("job {job} has ended: it is {state}")));
    }
    work.ring();
    Ok(())
}

/// Removes the record of one ended job.
pub(crate) fn forget(work: &Work, job: JobId) -> Result<()> {
    if work.row("forget.ended", &[(":job", &job.0)], |row| row.get::<_, i64>(0))?.is_none() {
        let state = state_of(work, job)?;
        return Err(conflict(format!("job {job} has not ended: it is {state}")));
    }
    end_attempt::forget(work, job.0)
}

/// Errors with `NotFound` if there is no record of the job.
fn state_of(work: &Work, job: JobId) -> Result<State> {
    work.row("cancel.find", &[(":job", &job.0)], |row| Columns::of(row).state())?
        .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no record of job {job}")))
}

fn conflict(message: String) -> Error {
    Error::new(ErrorKind::Conflict, message)
}
