//! What the plots show: a look at the queues every ten seconds, for half an hour, in memory. It refuses to store it
//! anywhere, to grow with the number of queues, and to look while the last look is still on its way.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use turno::QueueStats;

use super::state::Shared;

/// Between two looks, and how far each looks back.
const EVERY: Duration = Duration::from_secs(10);
/// Looks that are kept.
pub const SAMPLES_MAX: usize = 180;
/// Most queues with a history.
const QUEUES_MAX: usize = 500;

/// One look at one queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Jobs that a claim could take.
    pub ready: f64,
    /// Jobs that ended, per second.
    pub ended_per_s: f64,
    /// Attempts that failed, per second.
    pub failed_per_s: f64,
}

/// The looks of the last half hour.
#[derive(Debug, Default)]
pub struct History(Mutex<HashMap<String, VecDeque<Sample>>>);

impl History {
    /// The samples of a queue, oldest first.
    pub fn of(&self, queue: &str) -> Vec<Sample> {
        self.lock().get(queue).map(|samples| samples.iter().copied().collect()).unwrap_or_default()
    }

    fn add(&self, stats: &[QueueStats]) {
        let mut queues = self.lock();
        queues.retain(|queue, _| stats.iter().any(|stats| stats.queue == *queue));
        for stats in stats {
            if queues.len() >= QUEUES_MAX && !queues.contains_key(&stats.queue) {
                continue;
            }
            let samples = queues.entry(stats.queue.clone()).or_default();
            if samples.len() == SAMPLES_MAX {
                samples.pop_front();
            }
            let seconds = EVERY.as_secs_f64();
            samples.push_back(Sample {
                ready: stats.ready.n as f64,
                ended_per_s: (stats.succeeded.n + stats.dead.n + stats.cancelled.n) as f64 / seconds,
                failed_per_s: (stats.retries.n + stats.dead.n) as f64 / seconds,
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, VecDeque<Sample>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks until the server ends. A look that fails leaves a gap.
pub async fn watch(app: Shared) {
    let mut clock = tokio::time::interval(EVERY);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        clock.tick().await;
        if let Ok(stats) = app.look(app.reads.stats(EVERY)).await {
            app.history.add(&stats);
        }
    }
}
