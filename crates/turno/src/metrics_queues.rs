//! The state of the queues as gauges, asked of the database when somebody scrapes. It refuses to ask more often than
//! once a second however many scrape, to wait long for an answer, and to show numbers that are no longer true: while
//! the database is away there are none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use turno_contract::{Backend, DueSchedules, QueueStats, Usage};

/// Most queues that get labels of their own.
const QUEUES_MAX: usize = 500;
/// The history that counts as recent.
const WINDOW: Duration = Duration::from_secs(300);
/// A window that holds every record there is.
const EVER: Duration = Duration::from_secs(3650 * 24 * 3600);
/// How long an answer is good enough for the next scrape.
const FRESH: Duration = Duration::from_secs(1);
/// The same for the count of dead jobs, which reads more: at least this long, and this many times as long as the answer took, so that
/// beside any history it costs little of the time; and at most that long.
const DEAD_FRESH_MIN: Duration = Duration::from_secs(60);
const DEAD_FRESH_TIMES: u32 = 500;
const DEAD_FRESH_MAX: Duration = Duration::from_secs(600);
/// How long the database has to answer: below the usual time limit of a scrape.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What was last heard of the queues.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    seen: Mutex<Seen>,
    /// One question at a time; the others wait for its answer.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Only these, and always these; `None` for every queue there is.
    only: Option<BTreeSet<String>>,
    stats: Option<Vec<QueueStats>>,
    stats_at: Option<Instant>,
    /// `None` while it is not known.
    dead: Option<BTreeMap<String, u64>>,
    /// When they were last asked for, answered or not: the question is not cheap.
    dead_at: Option<Instant>,
    /// How long that took.
    dead_took: Duration,
    /// How late the latest schedule is; `None` while it is not known.
    schedule_late: Option<Duration>,
    /// What the backend uses; it is known also while the database is away.
    usage: Usage,
    /// How long the oldest transaction has been open that keeps dead rows from being removed; zero if there is none, and
    /// `None` while it is not known.
    oldest_transaction: Option<Duration>,
    asked: bool,
}

impl Queues {
    /// Shows these queues and no others, also before they have jobs.
    pub(crate) fn only<'a>(&self, queues: impl IntoIterator<Item = &'a String>) {
        self.seen().only.get_or_insert_default().extend(queues.into_iter().cloned());
    }

    /// Asks the database, unless the last answer is fresh.
    pub(crate) async fn refresh(&self, backend: &dyn Backend) {
        let _turn = self.asking.lock().await;
        let is_fresh = |at: Option<Instant>, limit| at.is_some_and(|at| at.elapsed() < limit);
        let (stats_fresh, dead_fresh) = {
            let seen = self.seen();
            (is_fresh(seen.stats_at, FRESH), is_fresh(seen.dead_at, dead_fresh_for(seen.dead_took)))
        };
        // One for both questions, so that a scrape ends in time.
        let deadline = tokio::time::Instant::now() + ANSWER_WITHIN;
        if !stats_fresh {
            let oldest = tokio::time::timeout_at(deadline, backend.oldest_transaction()).await;
            let oldest = oldest.ok().and_then(Result::ok).map(Option::unwrap_or_default);
            self.seen().oldest_transaction = oldest;
            let stats = tokio::time::timeout_at(deadline, backend.stats(WINDOW)).await;
            let stats = stats.ok().and_then(Result::ok);
            let due = match &stats {
                Some(_) => tokio::time::timeout_at(deadline, backend.schedule_due(1)).await.ok(),
                None => None,
            };
            let mut seen = self.seen();
            seen.schedule_late = due.and_then(Result::ok).map(|due| lateness(&due));
            seen.asked = true;
            seen.stats_at = stats.is_some().then(Instant::now);
            seen.stats = stats;
        }
        self.seen().usage = backend.usage();
        if !dead_fresh && self.seen().stats.is_some() {
            let began = Instant::now();
            let stats =
                tokio::time::timeout_at(deadline, backend.stats(EVER)).await.ok().and_then(Result::ok);
            let dead =
                |stats: Vec<QueueStats>| stats.into_iter().map(|stats| (stats.queue, stats.dead.n)).collect();
            let mut seen = self.seen();
            seen.dead = stats.map(dead);
            seen.dead_at = Some(Instant::now());
            seen.dead_took = began.elapsed();
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For how long a count of dead jobs is good enough that took so long.
fn dead_fresh_for(took: Duration) -> Duration {
    (took * DEAD_FRESH_TIMES).clamp(DEAD_FRESH_MIN, DEAD_FRESH_MAX)
}

/// How long the longest due schedule has been waiting for a tick.
fn lateness(due: &DueSchedules) -> Duration {
    let longest = due.schedules.first().map(|first| due.now - first.next_at);
    longest.and_then(|late| late.try_into().ok()).unwrap_or_default()
}

impl Seen {
    /// What is shown: oldest due job first, so that what is left out beyond the limit matters least.
    fn shown(&self) -> (Vec<QueueStats>, usize) {
        let mut stats: Vec<QueueStats> = self.stats.clone().unwrap_or_default();
        if let Some(only) = &self.only {
            stats.retain(|stats| only.contains(&stats.queue));
            let missing = only.iter().filter(|queue| !stats.iter().any(|stats| stats.queue == **queue));
            let missing: Vec<QueueStats> = missing.map(|queue| empty(queue)).collect();
            stats.extend(missing.into_iter().filter(|_| self.stats.is_some()));
        }
        stats.sort_by(|a, b| b.oldest_due_age.cmp(&a.oldest_due_age).then_with(|| a.queue.cmp(&b.queue)));
        let left_out = stats.len().saturating_sub(QUEUES_MAX);
        stats.truncate(QUEUES_MAX);
        (stats, left_out)
    }
}

impl Seen {
    /// What is the same for every queue.
    fn of_database(&self, encoder: &mut DescriptorEncoder) -> std::fmt::Result {
        let help = "Connections to the database that this process's backend has open";
        plain(encoder, "turno_database_connections", help, self.usage.connections as f64)?;
        let help = "Calls that were made again since the server had rolled them back: deadlocks, lock timeouts, conflicts";
        let calls = encoder.encode_descriptor("turno_database_retries", help, None, MetricType::Counter)?;
        ConstCounter::new(self.usage.calls_repeated).encode(calls)?;
        let oldest = if self.asked { self.oldest_transaction } else { Some(Duration::ZERO) };
        let Some(oldest) = oldest else { return Ok(()) };
        let help = "How long the oldest transaction has been open that keeps dead rows from being removed; 0 if there is none";
        plain(encoder, "turno_database_oldest_transaction_age_seconds", help, oldest.as_secs_f64())
    }
}

fn empty(queue: &str) -> QueueStats {
    let none = turno_contract::Count { n: 0, capped: false };
    QueueStats {
        queue: queue.to_owned(),
        paused: false,
        oldest_due_age: None,
        ready: none,
        scheduled: none,
        running: none,
        expired: none,
        succeeded: none,
        dead: none,
        cancelled: none,
        retries: none,
        refused: none,
        start_p50: None,
        start_p99: None,
        finish_p50: None,
        finish_p99: None,
    }
}

/// Registers with a registry; asks nothing itself.
#[derive(Debug)]
pub(crate) struct QueueCollector(pub(crate) Arc<Queues>);

impl Collector for QueueCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let seen = self.0.seen();
        let (stats, left_out) = seen.shown();
        let up = f64::from(u8::from(seen.stats.is_some() || !seen.asked));
        plain(
            &mut encoder,
            "turno_database_up",
            "Whether the last question to the database was answered",
            up,
        )?;
        let help = "Queues beyond the limit, which have no gauges";
        plain(&mut encoder, "turno_queues_left_out", help, left_out as f64)?;
        if let Some(late) = seen.schedule_late {
            let help = "How long the longest due schedule has been waiting to be fired; 0 if none is due";
            plain(&mut encoder, "turno_schedule_late_seconds", help, late.as_secs_f64())?;
        }
        seen.of_database(&mut encoder)?;
        let age = |s: &QueueStats| s.oldest_due_age.unwrap_or_default().as_secs_f64();
        let help = "Age of the oldest due job that no worker has taken; 0 if there is none";
        per_queue(&mut encoder, "turno_queue_oldest_due_age_seconds", help, &stats, age)?;
        let help = "Running jobs whose lease has ended";
        per_queue(&mut encoder, "turno_queue_leases_expired", help, &stats, |s| s.expired.n as f64)?;
        let help = "Whether claims are refused";
        per_queue(&mut encoder, "turno_queue_paused", help, &stats, |s| f64::from(u8::from(s.paused)))?;
        let p99 = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64();
        let help = "From due to claimed over five minutes, 99th percentile, by the database";
        per_queue(&mut encoder, "turno_queue_start_p99_seconds", help, &stats, |s| p99(s.start_p99))?;
        let help = "From first due to ended over five minutes, 99th percentile, by the database";
        per_queue(&mut encoder, "turno_queue_finish_p99_seconds", help, &stats, |s| p99(s.finish_p99))?;
        states(&mut encoder, &stats, seen.dead.as_ref())?;
        recent(&mut encoder, &stats)
    }
}

fn plain(encoder: &mut DescriptorEncoder, name: &str, help: &str, value: f64) -> std::fmt::Result {
    ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

fn per_queue(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    stats: &[QueueStats],
    value: impl Fn(&QueueStats) -> f64,
) -> std::fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for stats in stats {
        let labels = [("queue", &*stats.queue)];
        ConstGauge::new(value(stats)).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

fn states(
    encoder: &mut DescriptorEncoder,
    stats: &[QueueStats],
    dead: Option<&BTreeMap<String, u64>>,
) -> std::fmt::Result {
    let help = "Jobs by state; counts stop at 10000, and dead jobs are counted once a minute, or less often where that takes long";
    let mut metric = encoder.encode_descriptor("turno_queue_jobs", help, None, MetricType::Gauge)?;
    for stats in stats {
        let queue = &*stats.queue;
        let dead = dead.map(|dead| ("dead", dead.get(queue).copied().unwrap_or_default()));
        let counts =
            [("ready", stats.ready.n), ("scheduled", stats.scheduled.n), ("running", stats.running.n)];
        for (state, n) in counts.into_iter().chain(dead) {
            ConstGauge::new(n as f64).encode(metric.encode_family(&[("queue", queue), ("state", state)])?)?;
        }
    }
    Ok(())
}

fn recent(encoder: &mut DescriptorEncoder, stats: &[QueueStats]) -> std::fmt::Result {
    let help = "What happened in the last five minutes, by whichever worker; counts stop at 10000";
    let mut metric = encoder.encode_descriptor("turno_queue_recent", help, None, MetricType::Gauge)?;
    for stats in stats {
        let queue = &*stats.queue;
        let counts = [
            ("succeeded", stats.succeeded.n),
            ("dead", stats.dead.n),
            ("cancelled", stats.cancelled.n),
            ("retries", stats.retries.n),
            ("refused", stats.refused.n),
        ];
        for (what, n) in counts {
            ConstGauge::new(n as f64).encode(metric.encode_family(&[("queue", queue), ("what", what)])?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_takes_long_is_good_for_longer() {
        let table = [(0, 60), (100, 60), (500, 250), (1000, 500), (60_000, 600)];
        for (took_ms, fresh_s) in table {
            let fresh = dead_fresh_for(Duration::from_millis(took_ms));
            assert_eq!(fresh, Duration::from_secs(fresh_s), "{took_ms} ms");
        }
    }
}
