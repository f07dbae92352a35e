//! One job's whole story, and what must be true of it. Everything here is a pure function of what was gathered, so that
//! each check can be tested without a database. It refuses to gather.

use std::time::Duration;

use time::OffsetDateTime;
use turno::{AttemptRecord, JobRecord, RefusedRecord, State, Verb};

use crate::effects::{Operation, Sunk};
use crate::options::Fault;
use crate::protocol::{Answer, Outcome, Work};

/// What the database answered to one settle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) attempt: i64,
    pub(crate) verb: Verb,
    pub(crate) status: Answer,
    pub(crate) state: Option<State>,
    pub(crate) worker: String,
    /// Of a client that shows proofs which are not current.
    pub(crate) rogue: bool,
}

/// A fault that struck while a job was held.
#[derive(Debug, Clone)]
pub(crate) struct Struck {
    pub(crate) attempt: i64,
    pub(crate) fault: Fault,
    pub(crate) place: String,
    pub(crate) at: OffsetDateTime,
}

/// A lease that ended although nothing had happened to its worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expiry {
    pub(crate) attempt: i64,
    pub(crate) worker: String,
    pub(crate) from: OffsetDateTime,
    pub(crate) to: OffsetDateTime,
}

/// Everything known about one job.
#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) record: JobRecord,
    pub(crate) attempts: Vec<AttemptRecord>,
    pub(crate) refused: Vec<RefusedRecord>,
    pub(crate) told: Vec<Told>,
    pub(crate) struck: Vec<Struck>,
    pub(crate) effects: Option<Operation>,
    pub(crate) cancel_asked: bool,
    pub(crate) lease: Duration,
    /// The job had been set aside: only what was told since is there, and no effects.
    pub(crate) partial: bool,
}

/// One thing that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Violation {
    /// The check, as one word.
    pub check: &'static str,
    /// What was found.
    pub text: String,
    /// The job's whole story, in order, if it is about one job.
    pub story: Vec<String>,
}

impl Story {
    /// Every contradiction in the story of a job that has ended.
    pub(crate) fn check(&self) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        self.check_attempts(&mut found);
        self.check_budget(&mut found);
        self.check_answers(&mut found);
        self.check_ledger(&mut found);
        if !self.partial {
            self.check_end(&mut found);
            self.check_effects(&mut found);
        }
        found
    }

    /// Attempts are numbered without a gap, and no two leases overlap.
    fn check_attempts(&self, found: &mut Vec<(&'static str, String)>) {
        for (index, attempt) in self.attempts.iter().enumerate() {
            let expected = index as i64 + 1;
            if attempt.attempt != expected {
                found.push((
                    "attempts_gap",
                    format!("attempt {expected} is missing before {}", attempt.attempt),
                ));
                return;
            }
            if attempt.ended_at < attempt.claimed_at {
                found.push(("attempt_times", format!("attempt {expected} ended before it was claimed")));
            }
            if attempt.verb == Verb::Expire && attempt.ended_at < attempt.claimed_at + self.lease {
                let held = attempt.ended_at - attempt.claimed_at;
                let text =
                    format!("attempt {expected} expired after {held}, within a lease of {:?}", self.lease);
                found.push(("expired_early", text));
            }
        }
        for pair in self.attempts.windows(2) {
            if pair[1].claimed_at < pair[0].ended_at {
                let (a, b) = (pair[0].attempt, pair[1].attempt);
                let by = pair[0].ended_at - pair[1].claimed_at;
                found.push(("leases_overlap", format!("attempts {a} and {b} overlap by {by}")));
            }
        }
        let ended = self.attempts.len() as i64;
        if self.record.attempt != ended && self.record.state.is_final() {
            let text = format!("{} claims, but {ended} attempts have ended", self.record.attempt);
            found.push(("attempts_gap", text));
        }
    }

    /// `failures` counts exactly what was charged, and what had to be charged was.
    fn check_budget(&self, found: &mut Vec<(&'static str, String)>) {
        let JobRecord { failures, max_attempts, .. } = self.record;
        if failures > max_attempts {
            found.push(("budget", format!("{failures} failures of {max_attempts}")));
        }
        let charged = self.attempts.iter().filter(|attempt| attempt.charged).count();
        if charged != failures as usize {
            found.push(("budget", format!("{failures} failures, but {charged} attempts were charged")));
        }
        for attempt in &self.attempts {
            let must = match attempt.verb {
                Verb::Fail => true,
                Verb::Expire if attempt.started_at.is_some() => true,
                Verb::Expire => continue,
                Verb::Complete | Verb::Release | Verb::Revoke => false,
            };
            if attempt.charged != must {
                let word = if must { "not charged" } else { "charged" };
                let text = format!("attempt {} ended by {} and was {word}", attempt.attempt, attempt.verb);
                found.push(("charge", text));
            }
        }
    }

    /// The final state comes from the last attempt's own end.
    fn check_end(&self, found: &mut Vec<(&'static str, String)>) {
        let last = self.attempts.last().map(|attempt| attempt.verb);
        let completes = self.attempts.iter().filter(|attempt| attempt.verb == Verb::Complete).count();
        let fits = match self.record.state {
            State::Succeeded => last == Some(Verb::Complete) && completes == 1,
            State::Dead => matches!(last, Some(Verb::Fail | Verb::Expire)) && completes == 0,
            State::Cancelled => self.cancel_asked && completes == 0,
            State::Scheduled | State::Ready | State::Running => false,
        };
        if !fits {
            let text = format!("{} with {completes} completions, the last end {last:?}", self.record.state);
            found.push(("final_state", text));
        }
        if self.record.state == State::Dead && self.record.failures < self.record.max_attempts {
            let text = format!("dead with {} of {} failures", self.record.failures, self.record.max_attempts);
            found.push(("budget", text));
        }
        let work = self.record.payload.as_deref().and_then(|text| serde_json::from_str::<Work>(text).ok());
        if self.record.state == State::Succeeded && work.is_some_and(|work| self.record.failures < work.fails)
        {
            found.push(("budget", "it succeeded before it had failed as often as it was asked to".into()));
        }
        let outcome =
            self.record.result.as_deref().and_then(|text| serde_json::from_str::<Outcome>(text).ok());
        if self.record.state == State::Succeeded {
            match outcome {
                Some(outcome) if outcome.attempt == self.record.attempt => {}
                Some(Outcome { attempt, worker }) => {
                    let text = format!(
                        "the result is that of attempt {attempt} on {worker}, and attempt {} owned the job",
                        self.record.attempt
                    );
                    found.push(("stale_result", text));
                }
                None => found.push(("result", "it succeeded without its result".into())),
            }
        }
    }

    /// What workers were told agrees with what is recorded.
    fn check_answers(&self, found: &mut Vec<(&'static str, String)>) {
        for told in &self.told {
            let Told { attempt, verb, worker, .. } = told;
            let accepted = matches!(told.status, Answer::Done | Answer::Already);
            if told.rogue && accepted {
                found.push((
                    "forged_proof",
                    format!("{worker} settled attempt {attempt} by {verb} with a wrong proof"),
                ));
                continue;
            }
            if !accepted {
                continue;
            }
            let recorded = self.attempts.iter().find(|record| record.attempt == *attempt);
            if recorded.is_none_or(|record| record.verb != *verb) {
                let is =
                    recorded.map_or("not there".to_owned(), |record| format!("ended by {}", record.verb));
                let text =
                    format!("{worker} was told that {verb} of attempt {attempt} counts, but it is {is}");
                found.push(("answer", text));
            }
        }
        let done = |told: &&Told| told.status == Answer::Done && told.state.is_some_and(State::is_final);
        let finals: Vec<_> = self.told.iter().filter(done).map(|told| (told.attempt, told.verb)).collect();
        if finals.len() > 1 {
            found.push(("accepted_twice", format!("accepted ends: {finals:?}")));
        }
    }

    /// Every refusal that somebody was told is in the ledger, as often as it was told.
    fn check_ledger(&self, found: &mut Vec<(&'static str, String)>) {
        let refusals = self.told.iter().filter(|told| matches!(told.status, Answer::Refused | Answer::Gone));
        let mut counts = std::collections::BTreeMap::<(i64, &str), i64>::new();
        for told in refusals {
            *counts.entry((told.attempt, told.verb.as_str())).or_default() += 1;
        }
        for ((attempt, verb), count) in counts {
            let line = self.refused.iter().find(|line| line.attempt == attempt && line.verb.as_str() == verb);
            let times = line.map_or(0, |line| line.times);
            if times < count {
                let text = format!(
                    "{verb} of attempt {attempt} was refused {count} times, and the ledger has {times}"
                );
                found.push(("ledger", text));
            }
        }
    }

    /// The effect happened, under one operation id, and the fence let the accepted attempt through.
    fn check_effects(&self, found: &mut Vec<(&'static str, String)>) {
        let succeeded = self.record.state == State::Succeeded;
        let Some(operation) = &self.effects else {
            if succeeded {
                found.push(("effect", "it succeeded, and no effect has its operation id".into()));
            }
            return;
        };
        if operation.job != self.record.id.0 {
            found.push(("effect", format!("its operation id belongs to job {}", operation.job)));
        }
        if succeeded && (operation.applied_by.is_none() || operation.fenced_applied_by.is_none()) {
            found.push(("effect", "it succeeded, and a sink did not apply its effect".into()));
        }
        for (effect, sunk) in &operation.lines {
            if succeeded && effect.attempt == self.record.attempt && *sunk == Some(Sunk::Fenced) {
                let text =
                    format!("the fence refused attempt {}, whose completion was accepted", effect.attempt);
                found.push(("fence", text));
            }
            if effect.attempt > self.record.attempt {
                found.push((
                    "effect",
                    format!("an effect of attempt {}, which was never claimed", effect.attempt),
                ));
            }
        }
    }

    /// Ended leases with what is needed to decide whether something had happened to their workers.
    pub(crate) fn expiries(&self) -> Vec<Expiry> {
        let expired = self.attempts.iter().filter(|attempt| attempt.verb == Verb::Expire);
        expired
            .map(|attempt| Expiry {
                attempt: attempt.attempt,
                worker: attempt.worker.clone().unwrap_or_default(),
                from: attempt.claimed_at,
                to: attempt.ended_at,
            })
            .collect()
    }

    /// How long it took from each fault that cost an attempt until the job was taken up again or had ended.
    pub(crate) fn recoveries(&self) -> Vec<Duration> {
        let mut times = Vec::new();
        for struck in &self.struck {
            let index = self.attempts.iter().position(|attempt| attempt.attempt == struck.attempt);
            let Some(index) = index.filter(|index| self.attempts[*index].verb == Verb::Expire) else {
                continue;
            };
            let again =
                self.attempts.get(index + 1).map_or(self.attempts[index].ended_at, |next| next.claimed_at);
            times.push(Duration::try_from(again - struck.at).unwrap_or_default());
        }
        times
    }

    /// The story in order, for a person.
    pub(crate) fn tell(&self) -> Vec<String> {
        let job = &self.record;
        let mut lines: Vec<(OffsetDateTime, String)> = vec![(
            job.created_at,
            format!("job {} enqueued into {}: {}", job.id, job.queue, job.payload.as_deref().unwrap_or("-")),
        )];
        for attempt in &self.attempts {
            let (n, worker) = (attempt.attempt, attempt.worker.as_deref().unwrap_or("?"));
            lines.push((attempt.claimed_at, format!("attempt {n} claimed by {worker}")));
            if let Some(started_at) = attempt.started_at {
                lines.push((started_at, format!("attempt {n} started")));
            }
            let charged = if attempt.charged { ", charged" } else { "" };
            let error = attempt.error.as_deref().map_or(String::new(), |error| format!(": {error}"));
            lines.push((attempt.ended_at, format!("attempt {n} ended by {}{charged}{error}", attempt.verb)));
        }
        for line in &self.refused {
            let worker = line.worker.as_deref().unwrap_or("?");
            let text = format!(
                "refused {}x: {} of attempt {} from {worker}: {}",
                line.times, line.verb, line.attempt, line.reason
            );
            lines.push((line.first_at, text));
        }
        for struck in &self.struck {
            lines.push((
                struck.at,
                format!("fault: {} {} in attempt {}", struck.fault, struck.place, struck.attempt),
            ));
        }
        if let Some(finished_at) = job.finished_at {
            let (failures, max) = (job.failures, job.max_attempts);
            lines.push((
                finished_at,
                format!(
                    "{} after {failures} of {max} failures; result {}",
                    job.state,
                    job.result.as_deref().unwrap_or("-")
                ),
            ));
        } else {
            let text = format!("now {}, due {}, attempt {}", job.state, clock(job.run_at), job.attempt);
            lines.push((OffsetDateTime::now_utc(), text));
        }
        // Stable, so that what happened at one instant keeps the order in which it was gathered.
        lines.sort_by_key(|(at, _)| *at);
        let mut lines: Vec<String> =
            lines.into_iter().map(|(at, text)| format!("{}  {text}", clock(at))).collect();
        for told in &self.told {
            let Told { attempt, verb, status, state, worker, .. } = told;
            let state = state.map_or("-", State::as_str);
            lines
                .push(format!("told       {worker}: {verb} of attempt {attempt}: {status:?}, state {state}"));
        }
        for (effect, sunk) in self.effects.iter().flat_map(|operation| &operation.lines) {
            let what = sunk.map_or("shown to the fence".to_owned(), |sunk| format!("{sunk:?}"));
            lines.push(format!(
                "effect     {what}: attempt {} of {} with token {}",
                effect.attempt, effect.worker, effect.token_hash
            ));
        }
        lines
    }
}

fn clock(at: OffsetDateTime) -> String {
    let (hour, minute, second, micros) = (at.hour(), at.minute(), at.second(), at.nanosecond() / 1000);
    format!("{hour:02}:{minute:02}:{second:02}.{micros:06}")
}

#[cfg(test)]
#[path = "story_tests.rs"]
mod tests;
