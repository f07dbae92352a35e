//! Keeping leases (rules H1..H4).

use std::time::Duration;

use turno_contract::{Beat, Error, HeartbeatAnswer, Result, limits};

use crate::rows::{instant, micros};
use crate::work::Work;

/// Errors with `InvalidArgument` if the lease is not between 1 ms and 1 day.
pub(crate) fn check(lease: Duration) -> Result<()> {
    if (limits::LEASE_MIN..=limits::LEASE_MAX).contains(&lease) {
        return Ok(());
    }
    Err(Error::invalid(format!("lease {lease:?} is not between 1 ms and 1 day")))
}

/// Extends leases; one answer each, in the same order.
pub(crate) fn heartbeat(work: &Work, beats: &[Beat], lease: Duration) -> Result<Vec<HeartbeatAnswer>> {
    beats.iter().map(|beat| one(work, beat, lease)).collect()
}

fn one(work: &Work, beat: &Beat, lease: Duration) -> Result<HeartbeatAnswer> {
    let (job, attempt) = (beat.proof.job.0, beat.proof.attempt);
    let token = beat.proof.token.as_uuid();
    let token = token.as_bytes().as_slice();
    let extended = work.row(
        "heartbeat.extend",
        &[
            (":job", &job),
            (":attempt", &attempt),
            (":token", &token),
            (":lease", &micros(lease)),
            (":started", &beat.started),
            (":now", &work.now),
        ],
        |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)),
    )?;
    if let Some((until, cancel_requested)) = extended {
        return Ok(HeartbeatAnswer::Held {
            until: instant(until),
            held_for: Duration::from_micros((until - work.now).max(0) as u64),
            cancel_requested,
        });
    }
    let settled = work.one(
        "heartbeat.settled",
        &[(":job", &job), (":attempt", &attempt), (":token", &token)],
        |row| row.get(0),
    )?;
    Ok(if settled { HeartbeatAnswer::Finished } else { HeartbeatAnswer::Lost })
}
