//! The state of each queue, cheap at any size (rule V1).

use std::collections::HashMap;
use std::time::Duration;

use turno_contract::{Count, QueueStats, Result, State, limits};

use crate::operations::enqueue::queue_settings;
use crate::rows::Columns;
use crate::rows::micros;
use crate::work::Work;

/// The state of every queue that has settings or jobs, over this window of history.
pub(crate) fn stats(work: &Work, window: Duration) -> Result<Vec<QueueStats>> {
    let since = work.now.saturating_sub(micros(window));
    let running: HashMap<String, (i64, i64)> = work
        .rows("stats.running", &[(":now", &work.now)], |row| {
            let mut columns = Columns::of(row);
            Ok((columns.text()?, (columns.value()?, columns.value()?)))
        })?
        .into_iter()
        .collect();
    let queues = queues(work)?;
    queues
        .into_iter()
        .map(|queue| {
            let (running, expired) = running.get(&queue).copied().unwrap_or_default();
            one(work, queue, since, running, expired)
        })
        .collect()
}

/// The names of all queues that have settings or jobs, in order.
pub(crate) fn queues(work: &Work) -> Result<Vec<String>> {
    work.rows("stats.queues", &[], |row| Columns::of(row).text())
}

fn one(work: &Work, queue: String, since: i64, running: i64, expired: i64) -> Result<QueueStats> {
    let settings = queue_settings(work, &queue)?;
    let counts: Vec<Count> = work.one("stats.counts", &[(":queue", &queue), (":since", &since)], |row| {
        (0..7).map(|column| Ok(count(row.get(column)?))).collect()
    })?;
    let (start, finish) = times(work, &queue, since)?;
    Ok(QueueStats {
        paused: settings.queue == queue && settings.paused_at.is_some(),
        oldest_due_age: oldest_due_age(work, &queue, settings.aging_ms.is_some())?,
        ready: counts[0],
        scheduled: counts[1],
        running: count(running),
        expired: count(expired),
        succeeded: counts[2],
        dead: counts[3],
        cancelled: counts[4],
        retries: counts[5],
        refused: counts[6],
        start_p50: percentile(&start, 50),
        start_p99: percentile(&start, 99),
        finish_p50: percentile(&finish, 50),
        finish_p99: percentile(&finish, 99),
        queue,
    })
}

fn count(n: i64) -> Count {
    let n = n.max(0) as u64;
    Count { n, capped: n >= limits::STATS_COUNT_CAP }
}

fn oldest_due_age(work: &Work, queue: &str, aging: bool) -> Result<Option<Duration>> {
    let ready = if aging { "stats.oldest_ready_aging" } else { "stats.oldest_ready_strict" };
    let ready: Option<i64> = work.one(ready, &[(":queue", &queue)], |row| row.get(0))?;
    let scheduled: Option<i64> =
        work.row("stats.oldest_scheduled", &[(":queue", &queue), (":now", &work.now)], |row| row.get(0))?;
    let oldest = ready.into_iter().chain(scheduled).min();
    Ok(oldest.map(|due| Duration::from_micros((work.now - due).max(0) as u64)))
}

/// Sorted times to start and to finish of the latest ended jobs of each outcome, in microseconds.
fn times(work: &Work, queue: &str, since: i64) -> Result<(Vec<i64>, Vec<i64>)> {
    let mut ended: Vec<(Option<i64>, i64)> = Vec::new();
    for outcome in State::ALL.iter().filter(|state| state.is_final()) {
        ended.extend(work.rows(
            "stats.times",
            &[(":queue", &queue), (":outcome", &outcome.as_str()), (":since", &since)],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?);
    }
    let mut start: Vec<i64> = ended.iter().filter_map(|(start, _)| *start).collect();
    let mut finish: Vec<i64> = ended.iter().map(|(_, finish)| *finish).collect();
    start.sort_unstable();
    finish.sort_unstable();
    Ok((start, finish))
}

/// The nearest-rank percentile of sorted times.
fn percentile(sorted: &[i64], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).map(|micros| Duration::from_micros((*micros).max(0) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let times: Vec<i64> = (1..=200).collect();
        assert_eq!(percentile(&times, 50), Some(Duration::from_micros(100)));
        assert_eq!(percentile(&times, 99), Some(Duration::from_micros(198)));
        assert_eq!(percentile(&[7], 99), Some(Duration::from_micros(7)));
        assert_eq!(percentile(&[], 50), None);
        assert_eq!(percentile(&[-5], 50), Some(Duration::ZERO));
    }
}
