//! Counters of one worker. They only ever grow, and reading them costs nothing; they refuse to know any exporter.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$meta:meta])* $name:ident),+ $(,)?) => {
        /// The counters at one moment. All but the last three only ever grow.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
        #[non_exhaustive]
        pub struct Metrics { $($(#[$meta])* pub $name: u64),+ }

        #[cfg(feature = "prometheus")]
        impl Metrics {
            /// The sum of the counters of two workers.
            pub(crate) fn plus(self, other: Metrics) -> Metrics {
                Metrics { $($name: self.$name + other.$name),+ }
            }
        }

        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: Counter),+ }

        impl Counters {
            pub(crate) fn snapshot(&self) -> Metrics {
                Metrics { $($name: self.$name.get()),+ }
            }
        }
    };
}

counters! {
    /// Claims that were answered.
    claims,
    /// Of these, claims that found nothing.
    claims_empty,
    /// Jobs that claims returned.
    claimed,
    /// Handlers that were started.
    started,
    /// Jobs settled as succeeded.
    succeeded,
    /// Attempts settled as failed, whatever became of the job.
    failed,
    /// Of these, jobs that are dead by it.
    dead,
    /// Attempts given back uncharged.
    released,
    /// Jobs that ended as cancelled by a settle of this worker.
    cancelled,
    /// Settles that the database had recorded before (a lost answer, or a transaction of the handler's own).
    already,
    /// Results that were refused, because the lease was lost before they were sent.
    refused,
    /// Settles for which no record of the job was left.
    gone,
    /// Verdicts that could not be sent before their lease was long over.
    unsent,
    /// Leases that were lost while this worker held the job.
    leases_lost,
    /// Handlers that panicked.
    panicked,
    /// Handlers whose time was over.
    timed_out,
    /// Jobs given back because no handler knows their kind.
    unknown_kind,
    /// Jobs whose payload no handler was given, because it is no JSON, too large, too deep or of another shape.
    undecodable,
    /// Results that were replaced by a note, because they were too large or no JSON.
    results_replaced,
    /// Heartbeats that were answered.
    heartbeats,
    /// Expired leases that this worker's reaper ended.
    reaped,
    /// Jobs that this worker made of the instants of schedules.
    schedule_runs,
    /// Times that it found a schedule that cannot be fired.
    schedule_errors,
    /// Calls that failed and were made again.
    transient_errors,
    /// Calls that failed for a reason that repeating cannot mend.
    fatal_errors,
    /// Times that the doorbell ended a pause.
    rings,
    /// Hooks whose `event` panicked.
    hook_panics,
    /// Handlers that run now.
    running,
    /// Claimed jobs that wait for a free slot now.
    buffered,
    /// Verdicts that wait to be answered now.
    settling,
}

/// One counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, n: usize) {
        self.0.store(n as u64, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
