//! The life of a job in this process: accepted, buffered, started, asked to stop, ended. It refuses to wait for any
//! handler.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{Id, JoinError};
use turno_contract::{ClaimedJob, Completion, Failure, Proof, Release, Result};

use super::Control;
use super::claims::Sent;
use super::held::{Held, Lease, Stage, Verdict};
use super::verdict::{Ending, Outcome};
use crate::RetryPolicy;
use crate::context::{Attempt, CancelCause};
use crate::hook::{Event, JobResult};
use crate::report::Leftover;

/// How long a verdict is kept after its lease ended, at least.
const UNSENT_KEEP_MIN: Duration = Duration::from_secs(300);

impl Control {
    /// Takes over the jobs of a claim.
    pub(super) fn accept(&mut self, sent: &Sent, jobs: Vec<ClaimedJob>, now: Instant) {
        let start = sent.request.start.map_or(usize::MAX, |start| start as usize);
        if self.jobs.len() == 0 {
            // Nothing was held, so the rhythm begins anew; fresh leases need no heartbeat yet.
            self.beats.next_at = now + self.settings.heartbeat_every;
        }
        for (index, job) in jobs.into_iter().enumerate() {
            if self.jobs.get(&job.proof).is_some() {
                continue;
            }
            // From when the first request left, since any of its repeats may be the one that was carried out.
            let granted = Duration::try_from(job.lease_until - job.claimed_at).unwrap_or_default();
            let lease_end = sent.first_at + granted.min(self.settings.lease);
            let deadline = sent.last_at + job.max_run;
            let wait_max = (self.settings.lease / 2).min(job.max_run / 2);
            if lease_end < now + self.settings.heartbeat_every {
                self.beats.next_at = now;
            }
            let proof = job.proof;
            let counters = Arc::clone(&self.counters);
            self.jobs.insert(Held {
                attempt: Attempt::new(job, Arc::clone(&self.settings.name), deadline, counters),
                stage: Stage::Buffered { until: now + wait_max },
                lease: Lease::Kept,
                lease_end,
                verdict: Verdict::None,
                start_known: index < start,
                deadline_passed: false,
                abort_at: None,
            });
            if self.stopping.is_some() {
                self.give_back(&proof, None, "claimed while the worker shut down", now);
            } else if lease_end <= now {
                self.give_back(&proof, None, "its claim was answered too late", now);
            }
        }
    }

    /// Starts what the slots allow, in order; a kind at its limit does not hold up the others.
    pub(super) fn start_buffered(&mut self, now: Instant) {
        let mut index = 0;
        while self.tasks.len() < self.settings.concurrency {
            let Some(proof) = self.jobs.buffer.get(index).copied() else { return };
            let Some(held) = self.jobs.get(&proof) else {
                self.jobs.buffer.remove(index);
                continue;
            };
            if self.kind_is_full(&held.attempt.job.kind) {
                index += 1;
                continue;
            }
            let attempt = Arc::clone(&held.attempt);
            self.jobs.buffer.remove(index);
            self.start(&attempt, now);
        }
    }

    pub(super) fn kind_is_full(&self, kind: &str) -> bool {
        let Some(limit) = self.settings.kind_concurrency.get(kind) else { return false };
        self.running_by_kind.get(kind).is_some_and(|running| running >= limit)
    }

    fn start(&mut self, attempt: &Arc<Attempt>, now: Instant) {
        let proof = attempt.job.proof;
        let Some(future) = self.handlers.run(attempt) else {
            self.counters.unknown_kind.add(1);
            tracing::warn!(kind = %attempt.job.kind, job = %proof.job, "no handler knows this kind; given back");
            // Longer with every claim, so that a kind which nobody knows costs little.
            let delay = RetryPolicy::exponential(Duration::from_secs(1), Duration::from_secs(60));
            let delay = delay.delay(u32::try_from(proof.attempt).unwrap_or(u32::MAX));
            self.give_back(&proof, Some(delay), "no handler knows its kind", now);
            return;
        };
        let task = self.tasks.spawn_on(future, &self.executor);
        self.task_proofs.insert(task.id(), proof);
        if self.settings.kind_concurrency.contains_key(&attempt.job.kind) {
            *self.running_by_kind.entry(attempt.job.kind.clone()).or_default() += 1;
        }
        let known = self.jobs.change(&proof, |held| {
            held.stage = Stage::Running { task, since: now };
            held.start_known
        });
        if known == Some(false) {
            self.beats.started.push(proof);
        }
        self.counters.started.add(1);
        self.emit(Event::Started { proof, kind: &attempt.job.kind });
    }

    /// A handler's task has ended, by whatever way.
    pub(super) fn on_ended(&mut self, id: Id, result: Result<JobResult, JoinError>, now: Instant) {
        let Some(proof) = self.task_proofs.remove(&id) else { return };
        let Some(held) = self.jobs.get(&proof) else { return };
        let attempt = Arc::clone(&held.attempt);
        let settled_itself =
            held.lease == Lease::Finished && result.as_ref().is_err_and(JoinError::is_cancelled);
        let already_sent = held.verdict != Verdict::None || settled_itself;
        let ran = match held.stage {
            Stage::Running { since, .. } => now.saturating_duration_since(since),
            Stage::Buffered { .. } | Stage::Ended => Duration::ZERO,
        };
        if let Some(running) = self.running_by_kind.get_mut(&attempt.job.kind) {
            *running = running.saturating_sub(1);
        }
        self.run_time.record(ran);
        let ending = self.ending(&attempt, already_sent);
        let (outcome, panic) = ending.outcome(result);
        if let Some(payload) = panic {
            self.counters.panicked.add(1);
            self.discard(payload);
        }
        self.emit(Event::Ended { proof, ran });
        self.note_leftover(&attempt, &outcome);
        // The verdict first: a job without one is over as soon as its stage is.
        self.send_outcome(&proof, outcome, now);
        self.jobs.change(&proof, |held| held.stage = Stage::Ended);
    }

    fn ending<'a>(&'a self, attempt: &'a Attempt, already_sent: bool) -> Ending<'a> {
        let aborted = self.stopping.as_ref().is_some_and(|stopping| stopping.aborted_at.is_some());
        Ending {
            job: &attempt.job,
            cause: attempt.cause(),
            already_sent,
            gave_up_after: aborted.then_some(self.settings.shutdown_grace),
            policy: self.settings.kind_retry.get(&attempt.job.kind),
        }
    }

    /// Puts a verdict into the outbox.
    pub(super) fn send_outcome(&mut self, proof: &Proof, outcome: Outcome, now: Instant) {
        let proof = *proof;
        let keep = (self.settings.lease * 10).max(UNSENT_KEEP_MIN);
        let lease_end = self.jobs.get(&proof).map_or(now, |held| held.lease_end.max(now));
        let give_up_at = lease_end + keep;
        match outcome {
            Outcome::Silence => return,
            Outcome::Complete(result) => self.completions.push(Completion { proof, result }, now, give_up_at),
            Outcome::Fail(error, retry) => {
                self.failures.push(Failure { proof, error, retry }, now, give_up_at)
            }
            Outcome::Release(delay) => self.releases.push(Release { proof, delay }, now, give_up_at),
        }
        self.jobs.change(&proof, |held| {
            if held.verdict == Verdict::None {
                held.verdict = Verdict::Sent;
            }
        });
    }

    /// Gives a job back that has no task, uncharged.
    pub(super) fn give_back(&mut self, proof: &Proof, delay: Option<Duration>, why: &str, now: Instant) {
        self.jobs.buffer.retain(|buffered| buffered != proof);
        if let Some(stopping) = &mut self.stopping
            && let Some(held) = self.jobs.get(proof)
        {
            stopping.released.push(leftover(&held.attempt, why));
        }
        self.send_outcome(proof, Outcome::Release(delay), now);
        self.jobs.change(proof, |held| held.stage = Stage::Ended);
    }

    /// What becomes of this job is told in the report, since it did not end by its handler's own word.
    fn note_leftover(&mut self, attempt: &Attempt, outcome: &Outcome) {
        let Some(stopping) = &mut self.stopping else { return };
        match outcome {
            Outcome::Release(_) => stopping.released.push(leftover(attempt, "stopped when it was asked to")),
            Outcome::Fail(..) if stopping.aborted_at.is_some() => {
                stopping.given_up.push(leftover(attempt, "aborted at the end of the grace"));
            }
            _ => {}
        }
    }

    /// Fires what is due: fences, deadlines, aborts, and buffered jobs that waited too long.
    pub(super) fn fire_job_timers(&mut self, now: Instant) {
        let due = self.jobs.due(now);
        for proof in &due {
            self.fire(proof, now);
        }
        if !due.is_empty() || self.jobs.timer().is_some_and(|timer| timer <= now) {
            self.jobs.rearm();
        }
    }

    fn fire(&mut self, proof: &Proof, now: Instant) {
        let Some(held) = self.jobs.get(proof) else { return };
        if held.is_kept() && held.lease_end <= now {
            tracing::warn!(job = %proof.job, attempt = proof.attempt, "its lease ended without a heartbeat's answer");
            self.lose(proof, now);
            return;
        }
        match held.stage {
            Stage::Buffered { .. } => {
                let blocked = self.kind_is_full(&held.attempt.job.kind);
                // Those of a kind at its limit make room for others; the rest keeps its place.
                let delay = blocked.then(|| (self.settings.lease / 4).max(Duration::from_secs(1)));
                self.give_back(proof, delay, "waited too long for a slot", now);
            }
            Stage::Running { .. } if !held.deadline_passed && held.attempt.deadline <= now => {
                self.counters.timed_out.add(1);
                held.attempt.cancel(CancelCause::Deadline);
                let abort_at = now + self.settings.cancel_grace;
                self.jobs.change(proof, |held| {
                    held.deadline_passed = true;
                    held.abort_at.get_or_insert(abort_at);
                });
            }
            Stage::Running { .. } => self.abort(proof, now),
            Stage::Ended => {}
        }
    }

    /// The grace after a deadline or a lost lease is over. The verdict does not wait for the task to end, which a
    /// handler that never yields can put off for ever.
    fn abort(&mut self, proof: &Proof, now: Instant) {
        let Some(held) = self.jobs.get(proof) else { return };
        if let Stage::Running { task, .. } = &held.stage {
            task.abort();
        }
        let attempt = Arc::clone(&held.attempt);
        let verdict_is_due =
            held.deadline_passed && held.lease == Lease::Kept && held.verdict == Verdict::None;
        self.jobs.change(proof, |held| held.abort_at = None);
        if verdict_is_due {
            let outcome = self.ending(&attempt, false).timeout();
            self.send_outcome(proof, outcome, now);
        }
    }

    /// The lease is lost, or must be taken for lost.
    pub(super) fn lose(&mut self, proof: &Proof, now: Instant) {
        let Some(held) = self.jobs.get(proof) else { return };
        if held.lease == Lease::Lost || matches!(held.stage, Stage::Ended) {
            return;
        }
        self.counters.leases_lost.add(1);
        held.attempt.cancel(CancelCause::LeaseLost);
        let abort_at = now + self.settings.cancel_grace;
        let buffered = matches!(held.stage, Stage::Buffered { .. });
        if buffered {
            self.jobs.buffer.retain(|other| other != proof);
        }
        self.jobs.change(proof, |held| {
            held.lease = Lease::Lost;
            if buffered {
                held.stage = Stage::Ended;
            } else {
                held.abort_at.get_or_insert(abort_at);
            }
        });
        self.emit(Event::LeaseLost { proof: *proof });
    }
}

/// A line of the report.
pub(super) fn leftover(attempt: &Attempt, reason: &str) -> Leftover {
    let job = &attempt.job;
    Leftover {
        job: job.proof.job,
        attempt: job.proof.attempt,
        kind: job.kind.clone(),
        reason: reason.to_owned(),
    }
}
