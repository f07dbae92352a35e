//! The jobs that this worker holds, and when something about each of them is due. It refuses to decide anything: it
//! only remembers.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;
use turno_contract::{Beat, Proof};

use crate::context::Attempt;

/// How far a job has come.
#[derive(Debug)]
pub(super) enum Stage {
    /// Claimed, and waits for a slot until this instant.
    Buffered { until: Instant },
    /// Its handler's task has not ended.
    Running { task: AbortHandle, since: Instant },
    /// Its handler's task has ended, or it never had one.
    Ended,
}

/// What is known of the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lease {
    /// Renewed by heartbeats.
    Kept,
    /// Lost, or not renewed in time.
    Lost,
    /// The database says that the job was settled with this proof: nothing is left to renew.
    Finished,
}

/// What is known of the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Not reached.
    None,
    /// In the outbox or on its way.
    Sent,
    /// Answered, whatever the answer was.
    Answered,
}

/// One job.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) attempt: Arc<Attempt>,
    pub(super) stage: Stage,
    pub(super) lease: Lease,
    /// The end of the lease on this process's monotonic clock: never later than the database's.
    pub(super) lease_end: Instant,
    pub(super) verdict: Verdict,
    /// Whether the database knows that the handler has started.
    pub(super) start_known: bool,
    pub(super) deadline_passed: bool,
    /// When the handler's task is aborted, if it has been asked to stop.
    pub(super) abort_at: Option<Instant>,
}

impl Held {
    pub(super) fn proof(&self) -> Proof {
        self.attempt.job.proof
    }

    /// Whether its lease is worth a heartbeat.
    pub(super) fn is_kept(&self) -> bool {
        self.lease == Lease::Kept && self.verdict != Verdict::Answered
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Running { .. })
    }

    /// Whether nothing more will be heard of it or said about it.
    pub(super) fn is_over(&self) -> bool {
        match self.verdict {
            Verdict::Answered => !self.is_running(),
            Verdict::Sent => false,
            Verdict::None => matches!(self.stage, Stage::Ended),
        }
    }

    /// When something is due; `None` if only an answer or its handler's end can change it.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        let fence = self.is_kept().then_some(self.lease_end).filter(|_| !matches!(self.stage, Stage::Ended));
        let stage = match self.stage {
            Stage::Buffered { until } => Some(until.min(self.attempt.deadline)),
            Stage::Running { .. } if !self.deadline_passed => Some(self.attempt.deadline),
            Stage::Running { .. } | Stage::Ended => None,
        };
        [fence, stage, self.abort_at.filter(|_| self.is_running())].into_iter().flatten().min()
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    by_proof: HashMap<Proof, Held>,
    /// Those that wait for a slot, best first.
    pub(super) buffer: VecDeque<Proof>,
    /// A lower bound of the next timer, so that not every event scans all jobs.
    timer: Option<Instant>,
}

impl Jobs {
    pub(super) fn insert(&mut self, held: Held) {
        let proof = held.proof();
        if matches!(held.stage, Stage::Buffered { .. }) {
            self.buffer.push_back(proof);
        }
        self.sooner(held.next_timer());
        self.by_proof.insert(proof, held);
    }

    pub(super) fn get(&self, proof: &Proof) -> Option<&Held> {
        self.by_proof.get(proof)
    }

    /// Changes one job, keeps the timers right, and forgets it if it is over.
    pub(super) fn change<T>(&mut self, proof: &Proof, change: impl FnOnce(&mut Held) -> T) -> Option<T> {
        let held = self.by_proof.get_mut(proof)?;
        let answer = change(held);
        let (timer, over) = (held.next_timer(), held.is_over());
        if over {
            self.by_proof.remove(proof);
        } else {
            self.sooner(timer);
        }
        Some(answer)
    }

    pub(super) fn len(&self) -> usize {
        self.by_proof.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Held> {
        self.by_proof.values()
    }

    /// The heartbeats of all leases that are still kept.
    pub(super) fn beats(&self) -> Vec<Beat> {
        self.iter().filter(|held| held.is_kept()).map(beat).collect()
    }

    /// The heartbeats of these, as far as they are still kept and have no verdict: a verdict tells of the start as well.
    pub(super) fn beats_of(&self, proofs: &[Proof]) -> Vec<Beat> {
        let held = proofs.iter().filter_map(|proof| self.get(proof));
        held.filter(|held| held.is_kept() && held.verdict == Verdict::None).map(beat).collect()
    }

    /// When to call [`Jobs::due`] next; may be too early.
    pub(super) fn timer(&self) -> Option<Instant> {
        self.timer
    }

    /// The jobs for which something is due, earliest first.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Proof> {
        if self.timer.is_none_or(|timer| timer > now) {
            return Vec::new();
        }
        let mut due: Vec<(Instant, Proof)> = self
            .iter()
            .filter_map(|held| Some((held.next_timer()?, held.proof())))
            .filter(|(timer, _)| *timer <= now)
            .collect();
        due.sort_by_key(|(timer, _)| *timer);
        due.into_iter().map(|(_, proof)| proof).collect()
    }

    /// Finds the next timer anew, after what was due has been dealt with.
    pub(super) fn rearm(&mut self) {
        self.timer = self.iter().filter_map(Held::next_timer).min();
    }

    fn sooner(&mut self, timer: Option<Instant>) {
        self.timer = [self.timer, timer].into_iter().flatten().min();
    }
}

fn beat(held: &Held) -> Beat {
    Beat { proof: held.proof(), started: !matches!(held.stage, Stage::Buffered { .. }) }
}

/// How long handlers run, smoothed, for the decision how far ahead to claim.
#[derive(Debug, Default)]
pub(super) struct RunTime {
    mean_s: Option<f64>,
}

impl RunTime {
    pub(super) fn record(&mut self, ran: Duration) {
        let ran = ran.as_secs_f64();
        self.mean_s = Some(self.mean_s.map_or(ran, |mean| mean + (ran - mean) / 16.0));
    }

    /// How many jobs this many slots are expected to start within that time; none as long as nothing has ended.
    pub(super) fn expected_starts(&self, slots: usize, within: Duration) -> usize {
        let Some(mean_s) = self.mean_s else { return 0 };
        // A float too large for the type saturates.
        (slots as f64 * within.as_secs_f64() / mean_s.max(1e-6)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_prefetched_before_the_first_measurement_or_for_slow_handlers() {
        let mut run_time = RunTime::default();
        assert_eq!(run_time.expected_starts(10, Duration::from_secs(7)), 0);
        run_time.record(Duration::from_secs(60));
        assert_eq!(run_time.expected_starts(8, Duration::from_secs(7)), 0);
        let mut quick = RunTime::default();
        quick.record(Duration::from_millis(10));
        assert_eq!(quick.expected_starts(2, Duration::from_secs(1)), 200);
        quick.record(Duration::ZERO);
        assert!(quick.expected_starts(usize::MAX, Duration::MAX) > 0);
    }
}
