//! Ending expired leases (rules R1..R3).

use std::time::Duration;

use turno_contract::{JobId, LeaseLoss, Reaped, Result, Verb};

use crate::operations::end_attempt::{Ending, end_attempt};
use crate::rows::micros;
use crate::work::Work;

/// A grace that was kept stands for at least this long, and for four graces: else whoever reaps more seldom than once a
/// grace would hold back for ever.
const KEPT_GRACE_STANDS_US: i64 = 60_000_000;

/// Ends up to `limit` expired leases, unless it is time to hold back.
pub(crate) fn reap(work: &Work, limit: u32, grace: Duration) -> Result<Reaped> {
    if let Some(holding_for) = holding_for(work, micros(grace))? {
        return Ok(Reaped { jobs: Vec::new(), holding_for: Some(holding_for) });
    }
    let expired = work.rows("reap.expired", &[(":limit", &limit), (":now", &work.now)], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, text(row, 2)?, text(row, 3)?))
    })?;
    let mut jobs = Vec::with_capacity(expired.len());
    for (job, attempt, worker, until) in expired {
        let error = format!("the lease expired at {until}: worker {worker} was lost");
        let (state, _) = end_attempt(work, job, &Ending::with_error(Verb::Expire, &error))?;
        jobs.push(LeaseLoss { job: JobId(job), attempt, state });
    }
    Ok(Reaped { jobs, holding_for: None })
}

fn text(row: &rusqlite::Row, column: usize) -> rusqlite::Result<String> {
    let text = row.get_ref(column)?.as_bytes_or_null()?;
    Ok(text.map_or_else(|| "?".to_owned(), |bytes| String::from_utf8_lossy(bytes).into_owned()))
}

/// How long to hold back so that live workers can renew after an outage; `None`: reap now.
fn holding_for(work: &Work, grace: i64) -> Result<Option<Duration>> {
    let now = work.now;
    let (last_reap_at, hold_from) =
        work.one("reap.reaper", &[], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    let idle = now - last_reap_at;
    if grace > 0 && idle > grace {
        let held = now - hold_from;
        let stands = grace + KEPT_GRACE_STANDS_US.max(grace * 4);
        if !(0..=stands).contains(&held) {
            work.execute("reap.hold", &[(":now", &now)])?;
            return Ok(Some(Duration::from_micros(grace as u64)));
        }
        if held < grace {
            return Ok(Some(Duration::from_micros((grace - held) as u64)));
        }
    }
    // Idle reapers need not write every time; a clock that went back must not hide them, either.
    if idle >= grace / 4 && idle != 0 || idle < 0 {
        work.execute("reap.remember", &[(":now", &now)])?;
    }
    Ok(None)
}
