//! Settings and pauses of queues (rules P5, P6).

use std::time::Duration;

use turno_contract::{Error, Keep, QueueSettings, Result, SettingsChange, check_name, limits};

use crate::operations::enqueue::queue_settings;
use crate::operations::stats;
use crate::rows::{Settings, millis_rounded_up};
use crate::work::Work;

/// Longest retention that can be said in numbers; beyond it there is "for ever".
const KEEP_MAX: Duration = Duration::from_secs(3650 * 86_400);
/// Longest interval of aging.
const AGING_MAX: Duration = Duration::from_secs(86_400);
/// Farthest horizon: beyond the year 9999.
const HORIZON_MAX: Duration = Duration::from_secs(253_402_300_800);

/// No claim gets a job of this queue from now on.
pub(crate) fn pause(work: &Work, queue: &str) -> Result<()> {
    work.execute("queue_set.own", &[(":queue", &queue)])?;
    work.execute("pause.mark", &[(":queue", &queue), (":now", &work.now)])?;
    Ok(())
}

/// Ends a pause.
pub(crate) fn resume(work: &Work, queue: &str) -> Result<()> {
    work.execute("resume.unmark", &[(":queue", &queue)])?;
    work.ring();
    Ok(())
}

/// A change as numbers, each within its own limits.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    queue: String,
    description: Option<String>,
    aging_ms: Option<Option<i64>>,
    max_attempts: Option<u32>,
    max_run_ms: Option<i64>,
    retry_base_ms: Option<i64>,
    retry_cap_ms: Option<i64>,
    max_attempts_limit: Option<u32>,
    max_run_limit_ms: Option<i64>,
    run_at_horizon_ms: Option<Option<i64>>,
    keep_succeeded_ms: Option<i64>,
    keep_cancelled_ms: Option<i64>,
    keep_dead_ms: Option<i64>,
    receipts_ms: Option<i64>,
}

impl Change {
    /// Errors with `InvalidArgument` that names the setting outside its limits.
    pub(crate) fn new(queue: Option<&str>, change: &SettingsChange) -> Result<Self> {
        if let Some(queue) = queue {
            check_name("queue", queue)?;
        }
        Ok(Change {
            queue: queue.unwrap_or_default().to_owned(),
            description: change.description.clone(),
            aging_ms: change.aging.map(|aging| duration("aging", aging, AGING_MAX)).transpose()?,
            max_attempts: attempts("max_attempts", change.max_attempts)?,
            max_run_ms: duration("max_run", change.max_run, limits::MAX_RUN_MAX)?,
            retry_base_ms: duration("retry_base", change.retry_base, limits::DELAY_MAX)?,
            retry_cap_ms: duration("retry_cap", change.retry_cap, limits::DELAY_MAX)?,
            max_attempts_limit: attempts("max_attempts_limit", change.max_attempts_limit)?,
            max_run_limit_ms: duration("max_run_limit", change.max_run_limit, limits::MAX_RUN_MAX)?,
            run_at_horizon_ms: change
                .run_at_horizon
                .map(|horizon| or_zero("run_at_horizon", horizon, HORIZON_MAX))
                .transpose()?,
            keep_succeeded_ms: keep("keep_succeeded", change.keep_succeeded)?,
            keep_cancelled_ms: keep("keep_cancelled", change.keep_cancelled)?,
            keep_dead_ms: keep("keep_dead", change.keep_dead)?,
            receipts_ms: or_zero("receipts", change.receipts, KEEP_MAX)?,
        })
    }

    /// Whether ready jobs need new ranks.
    pub(crate) fn reranks(&self) -> bool {
        self.aging_ms.is_some()
    }
}

fn or_zero(what: &str, value: Option<Duration>, max: Duration) -> Result<Option<i64>> {
    value.map(|value| millis_rounded_up(what, value, max)).transpose()
}

fn duration(what: &str, value: Option<Duration>, max: Duration) -> Result<Option<i64>> {
    if value.is_some_and(|value| value.is_zero()) {
        return Err(Error::invalid(format!("{what} is zero; the shortest is 1 ms")));
    }
    or_zero(what, value, max)
}

fn attempts(what: &str, value: Option<u32>) -> Result<Option<u32>> {
    match value {
        Some(n) if !(1..=limits::ATTEMPTS_MAX).contains(&n) => {
            Err(Error::invalid(format!("{what} {n} is not in 1..={}", limits::ATTEMPTS_MAX)))
        }
        value => Ok(value),
    }
}

fn keep(what: &str, value: Option<Keep>) -> Result<Option<i64>> {
    match value {
        None => Ok(None),
        Some(Keep::Forever) => Ok(Some(-1)),
        Some(Keep::For(duration)) => or_zero(what, Some(duration), KEEP_MAX),
    }
}

/// Changes settings; answers all of them.
pub(crate) fn queue_set(work: &Work, change: &Change) -> Result<QueueSettings> {
    let queue = &change.queue;
    work.execute("queue_set.own", &[(":queue", queue)])?;
    let before = queue_settings(work, queue)?;
    check_together(&before, change)?;
    work.execute(
        "queue_set.change",
        &[
            (":queue", queue),
            (":description", &change.description),
            (":set_aging", &change.aging_ms.is_some()),
            (":aging_ms", &change.aging_ms.flatten()),
            (":max_attempts", &change.max_attempts),
            (":max_run_ms", &change.max_run_ms),
            (":retry_base_ms", &change.retry_base_ms),
            (":retry_cap_ms", &change.retry_cap_ms),
            (":max_attempts_limit", &change.max_attempts_limit),
            (":max_run_limit_ms", &change.max_run_limit_ms),
            (":set_horizon", &change.run_at_horizon_ms.is_some()),
            (":run_at_horizon_ms", &change.run_at_horizon_ms.flatten()),
            (":keep_succeeded_ms", &change.keep_succeeded_ms),
            (":keep_cancelled_ms", &change.keep_cancelled_ms),
            (":keep_dead_ms", &change.keep_dead_ms),
            (":receipts_ms", &change.receipts_ms),
        ],
    )?;
    Ok(queue_settings(work, queue)?.public())
}

/// Errors with `InvalidArgument` if a default would lie beyond its own limit.
fn check_together(before: &Settings, change: &Change) -> Result<()> {
    let after = |new: Option<i64>, old: i64| new.unwrap_or(old);
    let attempts = change.max_attempts.unwrap_or(before.max_attempts);
    let attempts_limit = change.max_attempts_limit.unwrap_or(before.max_attempts_limit);
    if attempts > attempts_limit {
        return Err(Error::invalid(format!(
            "max_attempts {attempts} is above max_attempts_limit {attempts_limit}"
        )));
    }
    for (what, value, limit_name, limit) in [
        (
            "max_run",
            after(change.max_run_ms, before.max_run_ms),
            "max_run_limit",
            after(change.max_run_limit_ms, before.max_run_limit_ms),
        ),
        (
            "retry_base",
            after(change.retry_base_ms, before.retry_base_ms),
            "retry_cap",
            after(change.retry_cap_ms, before.retry_cap_ms),
        ),
    ] {
        if value > limit {
            return Err(Error::invalid(format!("{what} {value} ms is above {limit_name} {limit} ms")));
        }
    }
    Ok(())
}

/// Gives one batch of ready jobs their new ranks; answers where the next batch begins, `None` at the end.
pub(crate) fn rerank(work: &Work, queue: Option<&str>, after: i64) -> Result<Option<i64>> {
    let queue = queue.unwrap_or_default();
    let until: Option<i64> = work.one("queue_set.batch_end", &[(":after", &after)], |row| row.get(0))?;
    if let Some(until) = until {
        work.execute("queue_set.rerank", &[(":queue", &queue), (":after", &after), (":until", &until)])?;
    }
    Ok(until)
}

/// The defaults first, then every queue that has settings or jobs, by name.
pub(crate) fn queue_list(work: &Work) -> Result<Vec<QueueSettings>> {
    let own = work.rows("queue_list.list", &[], Settings::read)?;
    let defaults = own.first().filter(|settings| settings.queue.is_empty()).cloned();
    let defaults = defaults.ok_or_else(|| {
        Error::new(turno_contract::ErrorKind::Internal, "the row of the defaults is gone from turno_queue")
    })?;
    let named = stats::queues(work)?.into_iter().map(|queue| {
        let own = own.iter().find(|settings| settings.queue == queue).cloned();
        own.unwrap_or_else(|| Settings { queue, description: None, paused_at: None, ..defaults.clone() })
    });
    Ok(std::iter::once(defaults.clone()).chain(named).map(Settings::public).collect())
}
