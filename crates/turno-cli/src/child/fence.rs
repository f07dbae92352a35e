//! Leases, told to the guard: a worker that is stopped (SIGSTOP, Ctrl-Z) cannot end its children when its leases end,
//! and somebody else may then start their jobs. The guard ends them instead. It hears of a lease no more than the
//! worker itself knows: its start, counted from before the request for it was sent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::ClockId;
use turno::{Event, Hook, Proof};

use super::guard::Guard;

/// A moment of the monotonic clock that all processes of the machine share, in milliseconds.
pub type Millis = u64;

/// The moment now.
pub fn now() -> Millis {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1000 + now.tv_nsec.unsigned_abs() / 1_000_000
}

/// What the guard knows about leases. As a hook of the worker it hears of every claim and heartbeat.
#[derive(Debug, Clone)]
pub struct Fence {
    guard: Arc<Guard>,
    lease: Duration,
    /// The ends of leases of jobs that were claimed and have not started.
    claimed: Arc<Mutex<HashMap<Proof, Millis>>>,
}

impl Fence {
    /// For a worker with this lease.
    pub fn new(guard: Arc<Guard>, lease: Duration) -> Self {
        Fence { guard, lease, claimed: Arc::default() }
    }

    /// When the lease of a job that starts now ends, unless a heartbeat renews it.
    pub fn lease_end(&self, proof: &Proof) -> Millis {
        let unknown = || now() + u64::try_from(self.lease.as_millis() / 2).unwrap_or(0);
        self.claimed().remove(proof).unwrap_or_else(unknown)
    }

    fn claimed(&self) -> MutexGuard<'_, HashMap<Proof, Millis>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end of a lease whose request was sent `took` before `at`.
    fn end(&self, at: Instant, took: Duration) -> Millis {
        let since_sent = at.elapsed() + took;
        let left = self.lease.saturating_sub(since_sent);
        now() + u64::try_from(left.as_millis()).unwrap_or(u64::MAX / 2)
    }
}

impl Hook for Fence {
    fn event(&self, at: Instant, event: &Event<'_>) {
        match event {
            Event::Claimed { jobs, took } => {
                let end = self.end(at, *took);
                self.claimed().extend(jobs.iter().map(|job| (job.proof, end)));
            }
            // One lease that was not renewed is the worker's to look after as long as it runs; that is what it does.
            Event::Heartbeat { held, took, .. } if *held > 0 => self.guard.renew(self.end(at, *took)),
            Event::Settled { proof, .. } | Event::LeaseLost { proof } => _ = self.claimed().remove(proof),
            _ => {}
        }
    }
}
