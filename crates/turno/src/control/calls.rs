//! Calls to the database and what their answers change. Every call has a time limit and none can take the loop down;
//! each kind of call refuses to have two on its way.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use turno_contract::{
    Beat, Claimed, ClaimedJob, Error, ErrorKind, HeartbeatAnswer, Proof, Pruned, Reaped, Result, Settled,
    SettledStatus, State, Verb, limits,
};

use super::claims::{Sent, WAIT_TTL};
use super::held::{Lease, Verdict as VerdictState};
use super::outbox::{Batch, Verdict};
use super::{Control, Input, SentBeats};
use crate::context::CancelCause;
use crate::hook::Event;

impl Control {
    /// Starts a call; its answer comes back as an input, whatever happens to it.
    pub(super) fn call<T, F, W>(&self, limit: Duration, future: F, wrap: W)
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
        W: FnOnce(Result<T>) -> Input + Send + 'static,
    {
        let guarded = async move {
            match AssertUnwindSafe(tokio::time::timeout(limit, future)).catch_unwind().await {
                Ok(Ok(result)) => result,
                Ok(Err(_)) => {
                    let text = format!("the database did not answer within {limit:?}");
                    Err(Error::new(ErrorKind::Unavailable, text).with_outcome_unknown())
                }
                Err(_) => Err(Error::new(ErrorKind::Internal, "the backend panicked")),
            }
        };
        self.calls.push(guarded.map(wrap).boxed());
    }

    /// The time limit of a call that is not about the lease itself.
    pub(super) fn call_limit(&self) -> Duration {
        self.settings.lease.clamp(Duration::from_secs(5), Duration::from_secs(30))
    }

    pub(super) fn beats_timer(&self) -> Option<Instant> {
        if !self.beats.started.is_empty() {
            return Some(Instant::now());
        }
        let busy = (!self.beats.busy.is_empty()).then_some(self.beats.busy_at);
        let all = (self.jobs.len() > 0).then_some(self.beats.next_at);
        [busy, all].into_iter().flatten().min()
    }

    /// One call for all leases every `heartbeat_every`; in between for those that were busy or have just started.
    pub(super) fn send_beats(&mut self, now: Instant) {
        if self.beats.in_flight {
            return;
        }
        let mut due_at = now;
        let beats = if now >= self.beats.next_at {
            due_at = self.beats.next_at;
            self.beats.next_at = now + self.settings.heartbeat_every;
            self.beats.busy.clear();
            self.beats.started.clear();
            self.jobs.beats()
        } else {
            let mut proofs = std::mem::take(&mut self.beats.started);
            if now >= self.beats.busy_at {
                proofs.append(&mut self.beats.busy);
            }
            self.jobs.beats_of(&proofs)
        };
        if beats.is_empty() {
            return;
        }
        self.beats.in_flight = true;
        let (backend, lease, beats) = (Arc::clone(&self.backend), self.settings.lease, Arc::new(beats));
        let sent = SentBeats { beats: Arc::clone(&beats), due_at, sent_at: now };
        // Half a lease leaves time for one more try.
        self.call(lease / 2, async move { backend.heartbeat(&beats, lease).await }, move |result| {
            Input::Beaten { sent, result }
        });
    }

    pub(super) fn on_beaten(&mut self, sent: &SentBeats, result: Result<Vec<HeartbeatAnswer>>, now: Instant) {
        let SentBeats { beats, due_at, sent_at } = sent;
        self.beats.in_flight = false;
        let answers = match result.and_then(|answers| same_length(answers, beats.len())) {
            Ok(answers) => answers,
            Err(error) => {
                self.beats.next_at = now + self.beats.backoff.failed(now);
                self.note_error("heartbeat", &error);
                return;
            }
        };
        self.beats.backoff.reset();
        self.counters.heartbeats.add(1);
        let mut held = 0;
        for (beat, answer) in beats.iter().zip(answers) {
            held += usize::from(matches!(answer, HeartbeatAnswer::Held { .. }));
            self.on_beat(beat, answer, *sent_at, now);
        }
        if !self.beats.busy.is_empty() {
            self.beats.busy_at = now + self.settings.heartbeat_every / 4;
        }
        let took = now.saturating_duration_since(*sent_at);
        let late = sent_at.saturating_duration_since(*due_at);
        self.emit(Event::Heartbeat { held, sent: beats.len(), took, late });
    }

    fn on_beat(&mut self, beat: &Beat, answer: HeartbeatAnswer, sent_at: Instant, now: Instant) {
        let proof = beat.proof;
        match answer {
            HeartbeatAnswer::Held { held_for, cancel_requested, .. } => {
                let attempt = self.jobs.change(&proof, |held| {
                    if held.lease == Lease::Kept {
                        held.lease_end = sent_at + held_for;
                    }
                    held.start_known |= beat.started;
                    Arc::clone(&held.attempt)
                });
                if cancel_requested && let Some(attempt) = attempt {
                    attempt.cancel(CancelCause::Requested);
                }
            }
            HeartbeatAnswer::Busy => self.beats.busy.push(proof),
            HeartbeatAnswer::Lost => self.lose(&proof, now),
            HeartbeatAnswer::Finished => {
                self.jobs.change(&proof, |held| held.lease = Lease::Finished);
            }
        }
    }

    /// How many jobs to ask for, and how many of them will certainly start at once, whatever their kinds.
    pub(super) fn claim_room(&self) -> (usize, usize) {
        let settings = &self.settings;
        let owed = self.completions.len() + self.failures.len() + self.releases.len();
        if owed > (10 * settings.concurrency).max(1000) {
            return (0, 0);
        }
        let waiting = self.jobs.buffer.len() - self.blocked().min(settings.concurrency);
        let taken = self.tasks.len() + waiting;
        let ahead = match settings.prefetch {
            0 => 0,
            max => self.run_time.expected_starts(settings.concurrency, settings.lease / 4).min(max),
        };
        let room = (settings.concurrency + ahead).saturating_sub(taken).min(limits::CLAIM_JOBS_MAX as usize);
        let of_kinds = settings.kind_concurrency.iter().map(|(kind, limit)| {
            limit.saturating_sub(self.running_by_kind.get(kind).copied().unwrap_or_default())
        });
        let slots = settings.concurrency.saturating_sub(taken);
        (room, of_kinds.fold(slots.min(room), usize::min))
    }

    /// How many buffered jobs are of a kind at its limit.
    fn blocked(&self) -> usize {
        if self.settings.kind_concurrency.is_empty() {
            return 0;
        }
        let buffered = self.jobs.buffer.iter().filter_map(|proof| self.jobs.get(proof));
        buffered.filter(|held| self.kind_is_full(&held.attempt.job.kind)).count()
    }

    pub(super) fn send_claim(&mut self, now: Instant) {
        if self.stopping.is_some() {
            return;
        }
        if self.claims.next_announcement(now) {
            let (backend, queues) = (Arc::clone(&self.backend), self.settings.queues.clone());
            self.call(self.call_limit(), async move { backend.wait(&queues, WAIT_TTL).await }, |result| {
                Input::Announced { result }
            });
        }
        let (room, slots) = self.claim_room();
        if let Some(sent) = self.claims.next(now, room as u32, slots as u32) {
            let (backend, request) = (Arc::clone(&self.backend), sent.request.clone());
            self.call(self.call_limit(), async move { backend.claim(&request).await }, move |result| {
                Input::Claimed { sent, result }
            });
        }
    }

    pub(super) fn on_claimed(&mut self, sent: Sent, result: Result<Claimed>, now: Instant) {
        let claimed = match result {
            Ok(claimed) => claimed,
            Err(error) => return self.on_claim_error(sent, error, now),
        };
        self.has_claimed = true;
        let took = now.saturating_duration_since(sent.last_at);
        self.counters.claims.add(1);
        self.counters.claimed.add(claimed.jobs.len() as u64);
        self.claims.answered(&sent, &claimed, now);
        if claimed.jobs.is_empty() {
            self.counters.claims_empty.add(1);
            self.emit(Event::ClaimEmpty { took, next_due_in: claimed.next_due_in });
        } else {
            self.emit(Event::Claimed { jobs: &claimed.jobs, took });
            self.accept(&sent, claimed.jobs, now);
        }
    }

    /// A claim that repeating cannot mend ends the worker: at once if none has ever succeeded, else if that lasts.
    fn on_claim_error(&mut self, sent: Sent, error: Error, now: Instant) {
        self.note_error("claim", &error);
        let lasts = self.claims.failed(sent, now);
        let hopeless = matches!(
            error.kind(),
            ErrorKind::InvalidArgument | ErrorKind::VersionMismatch | ErrorKind::PermissionDenied
        );
        if hopeless && (lasts || !self.has_claimed) && self.fatal.is_none() {
            self.fatal = Some(error);
            self.begin_shutdown(crate::worker::Command::Shutdown, now);
        }
    }

    pub(super) fn on_held(&mut self, sent: Sent, result: Result<Vec<ClaimedJob>>, now: Instant) {
        match result {
            Ok(jobs) => {
                self.claim_is_found();
                self.accept(&sent, jobs, now);
            }
            Err(error) => {
                self.note_error("held", &error);
                if let Some(stopping) = &mut self.stopping {
                    stopping.ask_again(sent, now);
                }
            }
        }
    }

    pub(super) fn on_announced(&mut self, result: Result<()>, now: Instant) {
        self.claims.announced(now, result.is_ok());
        if let Err(error) = result {
            self.note_error("wait", &error);
        }
    }

    /// Sends the groups of verdicts that are due.
    pub(super) fn send_verdicts(&mut self, now: Instant) {
        let hurry = self.stopping.is_some();
        if let Some(batch) = self.completions.next(now, hurry) {
            self.send_batch(batch, |batch, result| Input::Completed { batch, result });
        }
        if let Some(batch) = self.failures.next(now, hurry) {
            self.send_batch(batch, |batch, result| Input::Failed { batch, result });
        }
        if let Some(batch) = self.releases.next(now, hurry) {
            self.send_batch(batch, |batch, result| Input::Released { batch, result });
        }
    }

    fn send_batch<V: Verdict>(&self, batch: Batch<V>, wrap: fn(Batch<V>, Result<Vec<Settled>>) -> Input) {
        let (backend, worker) = (Arc::clone(&self.backend), Arc::clone(&self.settings.name));
        let verdicts: Vec<V> = batch.iter().map(|pending| pending.verdict.clone()).collect();
        let expected = batch.len();
        let future = async move {
            let answers = V::send(backend.as_ref(), &worker, &verdicts).await?;
            same_length(answers, expected)
        };
        self.call(self.call_limit(), future, move |result| wrap(batch, result));
    }

    pub(super) fn on_settled<V: Verdict>(
        &mut self,
        batch: Batch<V>,
        result: Result<Vec<Settled>>,
        now: Instant,
    ) where
        Control: HasLane<V>,
    {
        match result {
            Ok(answers) => {
                self.lane().answered();
                for (pending, settled) in batch.iter().zip(answers) {
                    let took = now.saturating_duration_since(pending.since);
                    self.on_verdict(pending.verdict.proof(), V::VERB, &settled, took);
                }
            }
            Err(error) => {
                self.note_error(V::VERB.as_str(), &error);
                for pending in self.lane().failed(batch, &error, now) {
                    let proof = pending.verdict.proof();
                    self.counters.unsent.add(1);
                    tracing::error!(job = %proof.job, attempt = proof.attempt, verb = %V::VERB, "its verdict is given up");
                    self.jobs.change(&proof, |held| held.verdict = VerdictState::Answered);
                }
            }
        }
    }

    fn on_verdict(&mut self, proof: Proof, verb: Verb, settled: &Settled, took: Duration) {
        let Settled { status, state, reason, .. } = settled;
        match status {
            SettledStatus::Done | SettledStatus::Already => {
                self.count_settled(verb, *state);
                if *status == SettledStatus::Already {
                    self.counters.already.add(1);
                }
            }
            SettledStatus::Refused | SettledStatus::Gone => {
                let refused = *status == SettledStatus::Refused;
                if refused { &self.counters.refused } else { &self.counters.gone }.add(1);
                let reason = reason.as_deref().unwrap_or("no record of the job is left");
                tracing::warn!(job = %proof.job, attempt = proof.attempt, %verb, reason, "a late result was refused");
                if let Some(stopping) = &mut self.stopping {
                    stopping.forget(proof);
                }
            }
        }
        self.jobs.change(&proof, |held| held.verdict = VerdictState::Answered);
        self.emit(Event::Settled { proof, verb, status: *status, state: *state, took });
    }

    fn count_settled(&self, verb: Verb, state: Option<State>) {
        let counters = &self.counters;
        match verb {
            Verb::Complete => counters.succeeded.add(1),
            Verb::Fail => counters.failed.add(1),
            _ => counters.released.add(1),
        }
        match state {
            Some(State::Dead) => counters.dead.add(1),
            Some(State::Cancelled) => counters.cancelled.add(1),
            _ => {}
        }
    }

    /// Reaps, then promotes; whoever works also cleans up (rule R1).
    pub(super) fn send_upkeep(&mut self, now: Instant) {
        if self.upkeep.in_flight || self.stopping.is_some() || now < self.upkeep.next_at {
            return;
        }
        // An idle worker's claims have just done the same.
        let every = self.settings.reap_every;
        let done = !self.upkeep.more && now < self.upkeep.prune_at;
        if done && self.claims.short_at.is_some_and(|at| now < at + every) {
            self.upkeep.next_at = self.next_upkeep(now, None);
            return;
        }
        self.upkeep.in_flight = true;
        let backend = Arc::clone(&self.backend);
        // A grace that is shorter than the reaper's own interval would make it hold back every time.
        let grace = self.settings.heartbeat_every.max(self.settings.reap_every * 2);
        let future = async move { backend.reap(limits::MAINTENANCE_ROWS_MAX, grace).await };
        self.call(self.call_limit(), future, |result| Input::Reaped { result });
    }

    pub(super) fn on_reaped(&mut self, result: Result<Reaped>, now: Instant) {
        match result {
            Ok(reaped) => {
                self.upkeep.backoff.reset();
                self.counters.reaped.add(reaped.jobs.len() as u64);
                let full = reaped.jobs.len() >= limits::MAINTENANCE_ROWS_MAX as usize;
                self.upkeep.more = full;
                self.upkeep.next_at = if full { now } else { self.next_upkeep(now, reaped.holding_for) };
                if !reaped.jobs.is_empty() {
                    self.emit(Event::Reaped { jobs: &reaped.jobs });
                }
            }
            Err(error) => {
                self.upkeep.next_at = now + self.upkeep.backoff.failed(now).max(self.settings.reap_every);
                self.note_error("reap", &error);
            }
        }
        let (backend, queues) = (Arc::clone(&self.backend), self.settings.queues.clone());
        let future = async move { backend.promote(&queues, limits::MAINTENANCE_ROWS_MAX).await };
        self.call(self.call_limit(), future, |result| Input::Promoted { result });
    }

    /// With jitter, so that many workers do not come at the same moment.
    fn next_upkeep(&self, now: Instant, holding_for: Option<Duration>) -> Instant {
        let every = self.settings.reap_every.mul_f64(0.75 + fastrand::f64() / 4.0);
        now + holding_for.map_or(every, |hold| hold.clamp(Duration::from_millis(1), every))
    }

    pub(super) fn on_promoted(&mut self, result: Result<u64>, now: Instant) {
        self.upkeep.in_flight = false;
        match result {
            Ok(promoted) if promoted >= u64::from(limits::MAINTENANCE_ROWS_MAX) => {
                (self.upkeep.more, self.upkeep.next_at) = (true, now);
            }
            Ok(_) => {}
            Err(error) => self.note_error("promote", &error),
        }
        if self.stopping.is_none() && now >= self.upkeep.prune_at {
            self.upkeep.in_flight = true;
            let backend = Arc::clone(&self.backend);
            let future = async move { backend.prune(limits::MAINTENANCE_ROWS_MAX).await };
            self.call(self.call_limit(), future, |result| Input::Pruned { result });
        }
    }

    /// A full batch is followed by the next one at the next upkeep, so that a long history leaves room for other work.
    pub(super) fn on_pruned(&mut self, result: Result<Pruned>, now: Instant) {
        self.upkeep.in_flight = false;
        let jittered = self.settings.prune_every.mul_f64(0.75 + fastrand::f64() / 4.0);
        self.upkeep.prune_at = now + jittered;
        match result {
            Ok(pruned) if pruned.jobs >= u64::from(limits::MAINTENANCE_ROWS_MAX) => {
                self.upkeep.prune_at = now
            }
            Ok(_) => {}
            Err(error) => self.note_error("prune", &error),
        }
    }
}

/// Finds the lane of a verdict's type.
pub(super) trait HasLane<V: Verdict> {
    fn lane(&mut self) -> &mut super::outbox::Lane<V>;
}

impl HasLane<turno_contract::Completion> for Control {
    fn lane(&mut self) -> &mut super::outbox::Lane<turno_contract::Completion> {
        &mut self.completions
    }
}

impl HasLane<turno_contract::Failure> for Control {
    fn lane(&mut self) -> &mut super::outbox::Lane<turno_contract::Failure> {
        &mut self.failures
    }
}

impl HasLane<turno_contract::Release> for Control {
    fn lane(&mut self) -> &mut super::outbox::Lane<turno_contract::Release> {
        &mut self.releases
    }
}

/// An answer of another length than the request cannot be matched to it.
fn same_length<T>(answers: Vec<T>, expected: usize) -> Result<Vec<T>> {
    if answers.len() == expected {
        return Ok(answers);
    }
    let text = format!("the backend answered {} times to {expected} requests", answers.len());
    Err(Error::new(ErrorKind::Internal, text))
}
