//! Taking jobs (rules C1..C9).

use turno_contract::{ClaimRequest, Claimed, ClaimedJob, Result, State, Token, limits};

use crate::operations::reap;
use crate::rows::{self, micros, millis};
use crate::work::Work;

/// Takes up to the limit; the request has been checked.
pub(crate) fn claim(work: &Work, request: &ClaimRequest) -> Result<Claimed> {
    let mut jobs = held(work, request.token)?;
    if !jobs.is_empty() {
        let place = |job: &ClaimedJob| request.queues.iter().position(|queue| *queue == job.queue);
        jobs.sort_by_key(|job| (place(job).unwrap_or(usize::MAX), job.rank, job.proof.job));
    } else {
        let promoted = promote(work, &request.queues, limits::MAINTENANCE_ROWS_MAX)?;
        if promoted > 0 {
            work.ring();
        }
        take(work, request, &mut jobs)?;
        if request.is_sweep() && is_short(request, &jobs) && reap_for(work, request)? {
            take(work, request, &mut jobs)?;
        }
    }
    let next_due_in = if is_short(request, &jobs) { next_due_in(work, &request.queues)? } else { None };
    Ok(Claimed { jobs, next_due_in })
}

/// The jobs that this token holds.
pub(crate) fn held(work: &Work, token: Token) -> Result<Vec<ClaimedJob>> {
    let token = token.as_uuid();
    let jobs = work.rows("held.list", &[(":token", &token.as_bytes().as_slice())], rows::claimed)?;
    Ok(jobs.into_iter().flatten().collect())
}

/// Makes due jobs of these queues ready (of all queues if none is named); answers how many.
pub(crate) fn promote(work: &Work, queues: &[String], limit: u32) -> Result<u64> {
    let all;
    let queues = if queues.is_empty() {
        all = work.rows("promote.queues", &[], |row| row.get(0))?;
        &all
    } else {
        queues
    };
    let mut left = limit as usize;
    for queue in queues {
        if left == 0 {
            break;
        }
        left -= work
            .execute("promote.due", &[(":queue", queue), (":limit", &(left as i64)), (":now", &work.now)])?;
    }
    Ok(u64::from(limit) - left as u64)
}

fn is_short(request: &ClaimRequest, jobs: &[ClaimedJob]) -> bool {
    jobs.len() < request.limit as usize
}

/// Takes what is missing, queue by queue: first what starts at once, then what is buffered.
fn take(work: &Work, request: &ClaimRequest, jobs: &mut Vec<ClaimedJob>) -> Result<()> {
    let limit = request.limit as usize;
    let starts = request.start.map_or(limit, |start| limit.min(start as usize));
    for (place, queue) in request.queues.iter().enumerate() {
        let from_rank = request.from_ranks.get(place).copied().flatten().unwrap_or(i64::MIN);
        for (started, until) in [(true, starts), (false, limit)] {
            if jobs.len() < until {
                let wanted = (until - jobs.len()) as i64;
                jobs.extend(take_some(work, request, queue, from_rank, started, wanted)?);
            }
        }
    }
    Ok(())
}

fn take_some(
    work: &Work,
    request: &ClaimRequest,
    queue: &str,
    from_rank: i64,
    started: bool,
    wanted: i64,
) -> Result<Vec<ClaimedJob>> {
    let taken = work.rows(
        "claim.take",
        &[
            (":queue", &queue),
            (":worker", &request.worker),
            (":limit", &wanted),
            (":lease", &micros(request.lease)),
            (":token", &request.token.as_uuid().as_bytes().as_slice()),
            (":started", &started),
            (":from_rank", &from_rank),
            (":now", &work.now),
        ],
        rows::claimed,
    )?;
    let mut jobs: Vec<ClaimedJob> = taken.into_iter().flatten().collect();
    jobs.sort_by_key(|job| (job.rank, job.proof.job));
    Ok(jobs)
}

/// Reaps with a grace of a third of the lease, which is how often live workers renew theirs. Answers whether any job
/// became ready.
fn reap_for(work: &Work, request: &ClaimRequest) -> Result<bool> {
    let reaped = reap::reap(work, limits::MAINTENANCE_ROWS_MAX, request.lease / 3)?;
    Ok(reaped.jobs.iter().any(|loss| loss.state == State::Ready))
}

fn next_due_in(work: &Work, queues: &[String]) -> Result<Option<std::time::Duration>> {
    let mut next: Option<i64> = None;
    for queue in queues {
        let due = work.row("claim.next_due", &[(":queue", queue)], |row| row.get::<_, i64>(0))?;
        next = match (next, due) {
            (Some(next), Some(due)) => Some(next.min(due)),
            (next, due) => next.or(due),
        };
    }
    Ok(next.map(|due| millis((due - work.now).max(0).div_euclid(1000))))
}
