//! When to try again: exponential delays with jitter and a cap. It refuses to overflow: at any count the delay is
//! positive and at most the cap.

use std::time::Duration;

use turno_contract::limits;

/// Exponential back-off, for a handler that wants another one than its queue's settings, and for the worker's own
/// calls to the database.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    base: Duration,
    cap: Duration,
    jitter: f64,
}

impl RetryPolicy {
    /// `base` after the first failure, doubled with every further one, up to `cap`, less up to a quarter at random.
    /// A base below 1 ms counts as 1 ms, a cap below the base as the base, and what is above 365 days as 365 days.
    pub fn exponential(base: Duration, cap: Duration) -> Self {
        let base = base.clamp(Duration::from_millis(1), limits::DELAY_MAX);
        RetryPolicy { base, cap: cap.clamp(base, limits::DELAY_MAX), jitter: 0.25 }
    }

    /// The same delay every time, without jitter.
    pub fn constant(delay: Duration) -> Self {
        RetryPolicy::exponential(delay, delay).jitter(0.0)
    }

    /// The part of a delay that is left to chance: from 0 (none) to 1 (all of it). It only ever shortens a delay.
    pub fn jitter(mut self, part: f64) -> Self {
        self.jitter = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.25 };
        self
    }

    /// The delay after this many failures without its jitter; none counts as one.
    pub fn nominal(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(127);
        let nanos = self.base.as_nanos().saturating_mul(1 << doublings);
        if nanos >= self.cap.as_nanos() { self.cap } else { Duration::from_nanos(nanos as u64) }
    }

    /// The delay after this many failures.
    pub fn delay(&self, failures: u32) -> Duration {
        let nominal = self.nominal(failures);
        nominal.mul_f64(1.0 - self.jitter * fastrand::f64()).max(Duration::from_nanos(1)).min(nominal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known fault B15: finite, positive, never falling, equal to the cap from there on, at any count.
    #[test]
    fn the_delay_never_overflows() {
        let secs = Duration::from_secs;
        let counts = [0, 1, 2, 3, 10, 31, 32, 62, 63, 64, 65, 127, 128, 129, 1000, i32::MAX as u32, u32::MAX];
        let caps =
            [(secs(1), secs(3600)), (Duration::ZERO, secs(1)), (secs(5), secs(1)), (secs(1), Duration::MAX)];
        for (base, cap) in caps {
            let policy = RetryPolicy::exponential(base, cap);
            let mut last = Duration::ZERO;
            for n in counts {
                let nominal = policy.nominal(n);
                assert!(nominal >= last && nominal > Duration::ZERO, "{n}: {nominal:?} after {last:?}");
                assert!(last < policy.cap || nominal == policy.cap);
                last = nominal;
                for _ in 0..100 {
                    let delay = policy.delay(n);
                    assert!(
                        delay > Duration::ZERO && delay <= nominal && delay >= nominal.mul_f64(0.74),
                        "{n}"
                    );
                }
            }
        }
        let policy = RetryPolicy::exponential(secs(1), secs(3600));
        assert_eq!([1, 2, 3, 12, 13].map(|n| policy.nominal(n).as_secs()), [1, 2, 4, 2048, 3600]);
    }

    #[test]
    fn jitter_of_any_number_stays_within_the_delay() {
        for part in [f64::NAN, f64::INFINITY, -1.0, 0.0, 0.5, 1.0, 7.0] {
            let policy =
                RetryPolicy::exponential(Duration::from_secs(1), Duration::from_secs(8)).jitter(part);
            for n in 0..10 {
                assert!(policy.delay(n) > Duration::ZERO && policy.delay(n) <= policy.nominal(n));
            }
        }
    }
}
