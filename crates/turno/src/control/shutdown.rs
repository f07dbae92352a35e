//! The end of a worker: no more claims, buffered jobs back, a grace for running handlers, then an abort; everything
//! within the grace and a second. It refuses to wait for ever, and to end without saying what became of each job.

use std::sync::Arc;
use std::time::{Duration, Instant};

use turno_contract::{Proof, Result};

use super::claims::Sent;
use super::held::{Held, Stage, Verdict};
use super::jobs::leftover;
use super::{Control, Input};
use crate::context::CancelCause;
use crate::report::{Leftover, Report, StoppedBy};
use crate::worker::Command;

/// How long aborted tasks have to end.
const ABORT_WAIT: Duration = Duration::from_millis(400);
/// How long after the grace the worker has ended, whatever the database does.
const HARD_END: Duration = Duration::from_millis(900);
/// How long a claim without an answer is asked for while nothing else keeps the worker.
const LOST_CLAIM_WAIT: Duration = Duration::from_secs(2);
/// The pause between two such questions.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// A shutdown that has begun.
pub(super) struct Stopping {
    by: StoppedBy,
    began: Instant,
    grace_end: Instant,
    pub(super) aborted_at: Option<Instant>,
    /// A claim whose outcome is unknown, and when to ask what it holds.
    lost_claim: Option<(Sent, Instant)>,
    asking: bool,
    pub(super) released: Vec<Leftover>,
    pub(super) given_up: Vec<Leftover>,
}

impl Stopping {
    fn hard_end(&self) -> Instant {
        self.grace_end + HARD_END
    }

    pub(super) fn timer(&self) -> Option<Instant> {
        let abort = match self.aborted_at {
            None => self.grace_end,
            Some(aborted_at) => aborted_at + ABORT_WAIT,
        };
        let ask = self.lost_claim.as_ref().map(|(_, at)| *at);
        let give_up_claim = self.began + LOST_CLAIM_WAIT;
        let now = Instant::now();
        // Instants that have passed have been acted upon.
        [Some(abort), ask, Some(give_up_claim), Some(self.hard_end())]
            .into_iter()
            .flatten()
            .filter(|at| *at > now)
            .min()
    }

    /// The question for a lost claim was not answered.
    pub(super) fn ask_again(&mut self, sent: Sent, now: Instant) {
        self.asking = false;
        self.lost_claim = Some((sent, now + ASK_AGAIN));
    }

    /// The verdict was refused: it is somebody else's job by now.
    pub(super) fn forget(&mut self, proof: Proof) {
        let other = |line: &Leftover| line.job != proof.job || line.attempt != proof.attempt;
        self.released.retain(other);
        self.given_up.retain(other);
    }
}

impl Control {
    pub(super) fn begin_shutdown(&mut self, command: Command, now: Instant) {
        let grace = match command {
            Command::Shutdown => self.settings.shutdown_grace,
            Command::StopNow => Duration::ZERO,
        };
        if let Some(stopping) = &mut self.stopping {
            if command == Command::StopNow {
                stopping.by = StoppedBy::StopNow;
                stopping.grace_end = stopping.grace_end.min(now);
            }
            return;
        }
        tracing::info!(worker = %self.settings.name, running = self.tasks.len(), ?grace, "shutting down");
        self.status.shutting_down.store(true, std::sync::atomic::Ordering::SeqCst);
        self.stopping = Some(Stopping {
            by: if command == Command::StopNow { StoppedBy::StopNow } else { StoppedBy::Shutdown },
            began: now,
            grace_end: now + grace,
            aborted_at: None,
            lost_claim: self.claims.stop().map(|sent| (sent, now)),
            asking: false,
            released: Vec::new(),
            given_up: Vec::new(),
        });
        for proof in std::mem::take(&mut self.jobs.buffer) {
            self.give_back(&proof, None, "had not started", now);
        }
        for held in self.jobs.iter().filter(|held| held.is_running()) {
            held.attempt.cancel(CancelCause::Shutdown);
        }
    }

    /// Does what the shutdown's clock asks for.
    pub(super) fn advance_shutdown(&mut self, now: Instant) {
        // A claim that was on its way when the shutdown began has failed since.
        let unanswered = self.stopping.is_some().then(|| self.claims.stop()).flatten();
        let Some(stopping) = &mut self.stopping else { return };
        if let Some(sent) = unanswered {
            stopping.lost_claim = Some((sent, now));
        }
        if now >= stopping.grace_end && stopping.aborted_at.is_none() {
            stopping.aborted_at = Some(now);
            self.tasks.abort_all();
        }
        if let Some(stopping) = &mut self.stopping
            && let Some((sent, _)) = stopping.lost_claim.take_if(|(_, at)| *at <= now)
        {
            stopping.asking = true;
            let (backend, token) = (Arc::clone(&self.backend), sent.request.token);
            self.call(LOST_CLAIM_WAIT, async move { backend.held(token).await }, move |result| Input::Held {
                sent,
                result,
            });
        }
    }

    /// A lost claim was answered.
    pub(super) fn claim_is_found(&mut self) {
        if let Some(stopping) = &mut self.stopping {
            stopping.asking = false;
        }
    }

    pub(super) fn is_done(&self, now: Instant) -> bool {
        let Some(stopping) = &self.stopping else { return false };
        if now >= stopping.hard_end() {
            return true;
        }
        let tasks_left = !self.tasks.is_empty()
            && stopping.aborted_at.is_none_or(|aborted_at| now < aborted_at + ABORT_WAIT);
        let owed = !(self.completions.is_empty() && self.failures.is_empty() && self.releases.is_empty());
        let claim_open = self.claims.is_in_flight() || stopping.asking || stopping.lost_claim.is_some();
        let asks_on = claim_open && now < stopping.began + LOST_CLAIM_WAIT;
        !(tasks_left || owed || asks_on)
    }

    /// The last words.
    pub(super) fn finish(mut self) -> Result<Report> {
        self.publish();
        let Some(stopping) = self.stopping.take() else {
            return Err(turno_contract::Error::new(
                turno_contract::ErrorKind::Internal,
                "ended without a shutdown",
            ));
        };
        let left_to_lease: Vec<Leftover> = self.jobs.iter().filter_map(left_to_lease).collect();
        let sent = |line: &Leftover| {
            !left_to_lease.iter().any(|left| left.job == line.job && left.attempt == line.attempt)
        };
        let report = Report {
            worker: self.settings.name.to_string(),
            stopped_by: stopping.by,
            shutdown_took: stopping.began.elapsed(),
            released: stopping.released.into_iter().filter(sent).collect(),
            given_up: stopping.given_up.into_iter().filter(sent).collect(),
            left_to_lease,
            metrics: self.counters.snapshot(),
        };
        tracing::info!(
            worker = %report.worker,
            released = report.released.len(),
            given_up = report.given_up.len(),
            left_to_lease = report.left_to_lease.len(),
            "ended"
        );
        match self.fatal.take() {
            Some(error) => Err(error),
            None => Ok(report),
        }
    }
}

fn left_to_lease(held: &Held) -> Option<Leftover> {
    let reason = match (&held.stage, held.verdict) {
        (_, Verdict::Sent) => "the database did not answer to its verdict",
        (Stage::Running { .. }, Verdict::None) => "its handler could not be stopped",
        _ => return None,
    };
    Some(leftover(&held.attempt, reason))
}
