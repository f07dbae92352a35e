//! When to claim and what to ask for: tokens of claims without an answer, the rotation of queues, hints and full
//! sweeps, pauses and the doorbell. It refuses to touch the database or a clock: it is told the time, and says what
//! to do.

use std::time::{Duration, Instant};

use turno_contract::{ClaimRequest, Claimed, Token};

use super::backoff::Backoff;
use crate::RetryPolicy;
use crate::builder::Settings;

/// A sweep from the front comes after so many times as long as the last one took (rule C8).
const SWEEP_SHARE: u32 = 10;
/// But no later than this.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// A sweep that takes longer is not made only to confirm an empty one.
const SWEEP_CHEAP: Duration = Duration::from_millis(20);
/// How long the database remembers that this worker sleeps.
pub(super) const WAIT_TTL: Duration = Duration::from_secs(30);
/// The part of a pause that jitter may take off.
const POLL_JITTER: f64 = 1.0 / 3.0;

/// A claim that was sent, until it is answered or given up.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) request: ClaimRequest,
    pub(super) first_at: Instant,
    pub(super) last_at: Instant,
    /// For each queue of the request, its index in the settings.
    order: Vec<usize>,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// There may be work: claim as soon as there is room.
    Busy,
    /// A claim came back short: tell the database that this worker is going to sleep.
    Announce,
    /// Being told.
    Announcing,
    /// Told: look once more, for what came before it was known.
    Confirm,
    /// Until `next_at` or a ring.
    Sleeping,
}

/// The pace of claims.
#[derive(Debug)]
pub(super) struct Claims {
    queues: Vec<String>,
    worker: String,
    lease: Duration,
    poll: RetryPolicy,
    poll_min: Duration,
    poll_max: Duration,
    phase: Phase,
    next_at: Instant,
    in_flight: bool,
    /// The claim whose answer is missing: it is repeated with its own token, for up to one lease (rule C5).
    unanswered: Option<Sent>,
    backoff: Backoff,
    rotation: usize,
    hints: Vec<Option<i64>>,
    swept_at: Option<Instant>,
    sweep_took: Duration,
    must_sweep: bool,
    /// Whether the last sweep found nothing, and nobody has found anything or rung since.
    swept_clean: bool,
    empty: u32,
    /// When the last claim was answered.
    answered_at: Option<Instant>,
    /// Whether the doorbell rang while a claim was on its way, which may have looked before.
    rung: bool,
    announced_until: Option<Instant>,
    /// Whether it sleeps since its last look at everything found nothing at all.
    pub(super) drained: bool,
    /// When a look at everything last came back short: then it has reaped and promoted, too (rule R1).
    pub(super) short_at: Option<Instant>,
}

impl Claims {
    pub(super) fn new(settings: &Settings, now: Instant) -> Self {
        Claims {
            queues: settings.queues.clone(),
            worker: settings.name.to_string(),
            lease: settings.lease,
            poll: RetryPolicy::exponential(settings.poll_min, settings.poll_max).jitter(POLL_JITTER),
            poll_min: settings.poll_min,
            poll_max: settings.poll_max,
            phase: Phase::Busy,
            next_at: now,
            in_flight: false,
            unanswered: None,
            backoff: Backoff::new(settings.poll_max.max(Duration::from_secs(1))),
            rotation: 0,
            hints: vec![None; settings.queues.len()],
            swept_at: None,
            sweep_took: Duration::ZERO,
            must_sweep: true,
            swept_clean: false,
            empty: 0,
            answered_at: None,
            rung: false,
            announced_until: None,
            drained: false,
            short_at: None,
        }
    }

    /// The claim to send now, for up to `limit` jobs of which `start` start at once.
    pub(super) fn next(&mut self, now: Instant, limit: u32, start: u32) -> Option<Sent> {
        if self.in_flight || now < self.next_at {
            return None;
        }
        if let Some(mut sent) = self.unanswered.take() {
            if now.saturating_duration_since(sent.first_at) <= self.lease {
                sent.last_at = now;
                self.in_flight = true;
                return Some(sent);
            }
            // What that token may hold is let go by its lease; from here on it is the reaper's.
            tracing::warn!(token = ?sent.request.token, "a claim stayed unanswered for a lease: a new token");
        }
        if limit == 0 || matches!(self.phase, Phase::Announce | Phase::Announcing) {
            return None;
        }
        self.in_flight = true;
        Some(self.fresh(now, limit, start))
    }

    fn fresh(&mut self, now: Instant, limit: u32, start: u32) -> Sent {
        let n = self.queues.len();
        let order: Vec<usize> = (0..n).map(|i| (i + self.rotation) % n).collect();
        self.rotation = (self.rotation + 1) % n;
        let sweep = self.must_sweep || self.sweep_is_due(now);
        let from_ranks =
            if sweep { Vec::new() } else { order.iter().map(|queue| self.hints[*queue]).collect() };
        let request = ClaimRequest {
            queues: order.iter().map(|queue| self.queues[*queue].clone()).collect(),
            worker: self.worker.clone(),
            limit,
            lease: self.lease,
            token: Token::random(),
            start: (start < limit).then_some(start),
            from_ranks,
        };
        Sent { request, first_at: now, last_at: now, order }
    }

    /// Sweeps cost at most a tenth of the time, and come at least every 10 s.
    fn sweep_due_at(&self) -> Option<Instant> {
        self.swept_at.map(|swept_at| swept_at + SWEEP_EVERY.min(self.sweep_took * SWEEP_SHARE))
    }

    fn sweep_is_due(&self, now: Instant) -> bool {
        self.sweep_due_at().is_none_or(|due_at| now >= due_at)
    }

    /// Whether the database shall now be told that this worker goes to sleep.
    pub(super) fn next_announcement(&mut self, now: Instant) -> bool {
        if self.phase != Phase::Announce || self.in_flight || now < self.next_at {
            return false;
        }
        self.phase = Phase::Announcing;
        true
    }

    /// The database was told, or could not be: either way it is time for one more look.
    pub(super) fn announced(&mut self, now: Instant, told: bool) {
        self.announced_until = told.then_some(now + WAIT_TTL);
        if self.phase == Phase::Announcing {
            self.phase = Phase::Confirm;
            self.next_at = now;
            self.must_sweep |= self.sweep_took <= SWEEP_CHEAP;
        }
    }

    /// Takes in the answer to a claim.
    pub(super) fn answered(&mut self, sent: &Sent, claimed: &Claimed, now: Instant) {
        self.in_flight = false;
        self.answered_at = Some(now);
        self.backoff.reset();
        let sweep = sent.request.is_sweep();
        if sweep {
            (self.swept_at, self.sweep_took) = (Some(now), now.saturating_duration_since(sent.last_at));
            self.must_sweep = false;
            self.swept_clean = !self.rung;
        }
        self.remember_ranks(sent, claimed);
        if claimed.jobs.is_empty() {
            self.empty = self.empty.saturating_add(1);
        } else {
            self.empty = 0;
            (self.drained, self.swept_clean) = (false, false);
        }
        if claimed.jobs.len() >= sent.request.limit as usize {
            (self.phase, self.next_at) = (Phase::Busy, now);
        } else if !sweep && self.sweep_is_due(now) {
            // Nothing is known about what lies before the hints.
            self.must_sweep = true;
            (self.phase, self.next_at) = (Phase::Busy, now);
        } else if std::mem::take(&mut self.rung) {
            (self.phase, self.next_at) = (Phase::Busy, now + self.floor());
        } else {
            self.rest(sent, claimed, now);
        }
    }

    /// A claim came back short: sleep, but never before the database knows that somebody sleeps, and never beyond the next
    /// sweep where this was none.
    fn rest(&mut self, sent: &Sent, claimed: &Claimed, now: Instant) {
        // A repeated claim may have answered with what it held, and looked at nothing.
        if sent.first_at == sent.last_at && sent.request.is_sweep() {
            self.short_at = Some(now);
        }
        let covered = self.announced_until.is_some_and(|until| until > now + self.poll_max);
        if self.phase != Phase::Confirm && !covered {
            (self.phase, self.next_at) = (Phase::Announce, now);
            return;
        }
        let next_at = now + self.pause(claimed.next_due_in);
        let next_at = match self.sweep_due_at() {
            Some(due_at) if !sent.request.is_sweep() => next_at.min(due_at),
            _ => next_at,
        };
        self.drained = self.swept_clean;
        (self.phase, self.next_at) = (Phase::Sleeping, next_at);
    }

    /// Rule W1. The floor keeps a job that is due but cannot be had (paused, or locked by somebody) from making this
    /// a busy loop.
    fn pause(&self, next_due_in: Option<Duration>) -> Duration {
        let pause = self.poll.delay(self.empty);
        next_due_in.map_or(pause, |due_in| pause.min(due_in.max(self.floor())))
    }

    /// The least time between two claims that find nothing: 1 ms doubling to the shortest pause.
    fn floor(&self) -> Duration {
        Duration::from_millis(1 << self.empty.min(10)).min(self.poll_min)
    }

    /// Takes in an error; says whether the claim has now failed for longer than a lease.
    pub(super) fn failed(&mut self, sent: Sent, now: Instant) -> bool {
        self.in_flight = false;
        self.next_at = now + self.backoff.failed(now);
        self.unanswered = Some(sent);
        self.backoff.lasts_longer_than(self.lease, now)
    }

    /// The doorbell rang: somebody may have enqueued.
    pub(super) fn rang(&mut self, now: Instant) -> bool {
        self.announced_until = None;
        (self.drained, self.swept_clean) = (false, false);
        self.rung |= self.in_flight;
        if self.phase != Phase::Sleeping || self.in_flight {
            return false;
        }
        self.phase = Phase::Busy;
        // At once, unless the last claim is so recent that many rings for nothing would make this a busy loop.
        let earliest = self.answered_at.map_or(now, |answered_at| (answered_at + self.floor()).max(now));
        self.next_at = self.next_at.min(earliest);
        true
    }

    /// When to ask again, if there is room for jobs.
    pub(super) fn timer(&self, has_room: bool) -> Option<Instant> {
        let waits_for_answer = self.in_flight || self.phase == Phase::Announcing;
        let wants = self.unanswered.is_some() || self.phase == Phase::Announce || has_room;
        (!waits_for_answer && wants).then_some(self.next_at)
    }

    /// Ends claiming; the claim whose outcome is unknown is handed over, to be asked for with `held`.
    pub(super) fn stop(&mut self) -> Option<Sent> {
        self.unanswered.take()
    }

    pub(super) fn is_in_flight(&self) -> bool {
        self.in_flight
    }

    fn remember_ranks(&mut self, sent: &Sent, claimed: &Claimed) {
        for (name, queue) in sent.request.queues.iter().zip(&sent.order) {
            // A queue that gave nothing keeps its hint: whoever sweeps for nothing would otherwise sweep again at the next ring.
            if let Some(last) = claimed.jobs.iter().filter(|job| job.queue == *name).map(|job| job.rank).max()
            {
                self.hints[*queue] = Some(last);
            }
        }
    }
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
