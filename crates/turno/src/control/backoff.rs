//! The pause after a failed call, and for how long calls have been failing. It refuses to sleep: it says how long.

use std::time::{Duration, Instant};

use crate::RetryPolicy;

/// Exponential from 25 ms to a cap, with jitter.
#[derive(Debug)]
pub(super) struct Backoff {
    policy: RetryPolicy,
    failures: u32,
    since: Option<Instant>,
}

impl Backoff {
    pub(super) fn new(cap: Duration) -> Self {
        Backoff { policy: RetryPolicy::exponential(Duration::from_millis(25), cap), failures: 0, since: None }
    }

    /// One more failure; how long to pause.
    pub(super) fn failed(&mut self, now: Instant) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.since.get_or_insert(now);
        self.policy.delay(self.failures)
    }

    /// A success.
    pub(super) fn reset(&mut self) {
        (self.failures, self.since) = (0, None);
    }

    /// Whether nothing has succeeded for that long.
    pub(super) fn lasts_longer_than(&self, limit: Duration, now: Instant) -> bool {
        self.since.is_some_and(|since| now.saturating_duration_since(since) > limit)
    }
}
