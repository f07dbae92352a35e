//! The reaper and the pruner for workers that come over HTTP: whoever claims also cleans up. It refuses to do anything
//! while nobody claims, and to hold up a claim, and to begin while the last time is not over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use turno::{BoxedBackend, limits};

/// How often expired leases are looked for while somebody claims.
const REAP_EVERY: Duration = Duration::from_secs(5);
/// How long the reaper waits after an outage, so that live workers can renew first.
const REAP_GRACE: Duration = Duration::from_secs(10);
/// How often records whose time is over are removed.
const PRUNE_EVERY: Duration = Duration::from_secs(60);

/// When it was last done, and a turn for each that is taken while it is being done.
#[derive(Debug)]
pub struct Upkeep {
    began: Instant,
    reap_at_ms: AtomicU64,
    prune_at_ms: AtomicU64,
    reaping: Arc<Semaphore>,
    pruning: Arc<Semaphore>,
}

impl Upkeep {
    /// Nothing has been done yet.
    pub fn new() -> Self {
        Upkeep {
            began: Instant::now(),
            reap_at_ms: AtomicU64::new(0),
            prune_at_ms: AtomicU64::new(0),
            reaping: Arc::new(Semaphore::new(1)),
            pruning: Arc::new(Semaphore::new(1)),
        }
    }

    /// Somebody claims: does what is due, beside the claim.
    pub fn claimed(&self, backend: &BoxedBackend) {
        if self.is_due(&self.reap_at_ms, REAP_EVERY)
            && let Ok(turn) = Arc::clone(&self.reaping).try_acquire_owned()
        {
            let backend = backend.clone();
            tokio::spawn(async move {
                let _turn = turn;
                if let Err(error) = backend.reap(limits::MAINTENANCE_ROWS_MAX, REAP_GRACE).await {
                    tracing::warn!(%error, "cannot reap");
                }
            });
        }
        if self.is_due(&self.prune_at_ms, PRUNE_EVERY)
            && let Ok(turn) = Arc::clone(&self.pruning).try_acquire_owned()
        {
            let backend = backend.clone();
            tokio::spawn(async move {
                let _turn = turn;
                if let Err(error) = backend.prune(limits::MAINTENANCE_ROWS_MAX).await {
                    tracing::warn!(%error, "cannot prune");
                }
            });
        }
    }

    fn is_due(&self, at_ms: &AtomicU64, every: Duration) -> bool {
        let now_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let next_ms = now_ms + u64::try_from(every.as_millis()).unwrap_or(u64::MAX / 2);
        let due = at_ms.load(Ordering::Relaxed);
        due <= now_ms && at_ms.compare_exchange(due, next_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}
