//! Removing records whose time is over (rules P7, P8, S7, K5).

use turno_contract::{Pruned, Result, State, limits};

use crate::operations::end_attempt::forget;
use crate::operations::enqueue::queue_settings;
use crate::rows::Settings;
use crate::work::Work;

/// How long a row of the ledger is kept after its last repeat.
const REFUSED_KEPT_MS: i64 = 30 * 86_400_000;

/// Removes up to `limit` records.
pub(crate) fn prune(work: &Work, limit: u32) -> Result<Pruned> {
    let mut left = i64::from(limit);
    let mut pruned = Pruned::default();
    let queues: Vec<String> = work.rows("prune.queues", &[], |row| row.get(0))?;
    for queue in queues {
        if left <= 0 {
            break;
        }
        let settings = queue_settings(work, &queue)?;
        let removed = prune_queue(work, &queue, &settings, left)?;
        left -= removed;
        pruned.jobs += removed as u64;
    }
    let before = work.now - REFUSED_KEPT_MS * 1000;
    pruned.refused = work.execute("prune.refused", &[(":before", &before), (":limit", &left.max(0))])? as u64;
    let before = work.now - limits::SCHEDULE_RUNS_KEPT.as_micros() as i64;
    let params: crate::work::Params = &[(":before", &before), (":limit", &limit)];
    pruned.schedule_runs = work.execute("prune.schedule_runs", params)? as u64;
    Ok(pruned)
}

fn prune_queue(work: &Work, queue: &str, settings: &Settings, limit: i64) -> Result<i64> {
    let before = work.now - settings.receipts_ms * 1000;
    let mut ids: Vec<i64> = work.rows(
        "prune.receipts",
        &[(":queue", &queue), (":before", &before), (":limit", &limit)],
        |row| row.get(0),
    )?;
    for (outcome, keep_ms) in [
        (State::Succeeded, settings.keep_succeeded_ms),
        (State::Cancelled, settings.keep_cancelled_ms),
        (State::Dead, settings.keep_dead_ms),
    ] {
        let left = limit - ids.len() as i64;
        if keep_ms < 0 || left <= 0 {
            continue;
        }
        // A whole record from before the retention became 0 is worth a receipt as long as one.
        let kept_ms = if keep_ms == 0 { settings.receipts_ms } else { keep_ms };
        let before = work.now - kept_ms * 1000;
        ids.extend(work.rows(
            "prune.records",
            &[(":queue", &queue), (":outcome", &outcome.as_str()), (":before", &before), (":limit", &left)],
            |row| row.get::<_, i64>(0),
        )?);
    }
    for id in &ids {
        forget(work, *id)?;
    }
    Ok(ids.len() as i64)
}
