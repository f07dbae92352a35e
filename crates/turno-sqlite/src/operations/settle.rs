//! Ending attempts with a proof: complete, fail, release; and what is answered without one (rules S1..S7).

use turno_contract::{
    Completion, Error, Failure, Proof, Refused, Release, Result, Retry, Settled, SettledStatus, State, Verb,
    check_json, check_name, cut_error, limits,
};

use crate::operations::end_attempt::{Ending, end_attempt};
use crate::rows::{Columns, instant, millis_rounded_up};
use crate::work::Work;

/// One settle of any verb, checked and ready to be carried out.
#[derive(Debug, Clone)]
pub(crate) struct Settle {
    proof: Proof,
    verb: Verb,
    ending: Ending,
}

impl Settle {
    /// Errors with `InvalidArgument` if the result is no JSON or too long.
    pub(crate) fn complete(completion: &Completion, payload_bytes_max: usize) -> Result<Self> {
        if let Some(result) = &completion.result {
            check_json("result", result, payload_bytes_max)?;
        }
        let verb = Verb::Complete;
        let ending = Ending { verb: Some(verb), result: completion.result.clone(), ..Ending::default() };
        Ok(Settle { proof: completion.proof, verb, ending })
    }

    /// Errors with `InvalidArgument` if the delay is too long.
    pub(crate) fn fail(failure: &Failure) -> Result<Self> {
        let mut ending = Ending::with_error(Verb::Fail, &failure.error);
        match failure.retry {
            Retry::Policy => {}
            Retry::In(delay) => ending.delay_ms = Some(millis_rounded_up("retry", delay, limits::DELAY_MAX)?),
            Retry::Never => ending.never = true,
        }
        Ok(Settle { proof: failure.proof, verb: Verb::Fail, ending })
    }

    /// Errors with `InvalidArgument` if the delay is too long.
    pub(crate) fn release(release: &Release) -> Result<Self> {
        let delay = release.delay.map(|delay| millis_rounded_up("delay", delay, limits::DELAY_MAX));
        let ending = Ending { verb: Some(Verb::Release), delay_ms: delay.transpose()?, ..Ending::default() };
        Ok(Settle { proof: release.proof, verb: Verb::Release, ending })
    }

    /// What goes to the ledger if it is refused.
    fn detail(&self) -> Option<String> {
        match self.verb {
            Verb::Complete => self.ending.result.as_deref().map(|result| cut_error(result).0),
            _ => self.ending.error.clone(),
        }
    }
}

/// Errors with `InvalidArgument` if the worker's label is none.
pub(crate) fn check_worker(worker: &str) -> Result<()> {
    check_name("worker", worker)
}

/// Carries out settles; refusals are answers, and stand in the ledger.
pub(crate) fn settle(work: &Work, worker: &str, settles: &[Settle]) -> Result<Vec<Settled>> {
    settles
        .iter()
        .map(|settle| match accept(work, settle)? {
            Some(settled) => Ok(settled),
            None => {
                let miss = explain(work, settle.proof, settle.verb)?;
                if miss.settled.status != SettledStatus::Already {
                    record(work, worker, settle.proof, settle.verb, settle.detail(), &miss)?;
                }
                Ok(miss.settled)
            }
        })
        .collect()
}

/// Carries out one settle in a caller's transaction: a refusal is an error, and changes nothing.
pub(crate) fn settle_or_error(work: &Work, settle: &Settle) -> Result<Settled> {
    if let Some(settled) = accept(work, settle)? {
        return Ok(settled);
    }
    let miss = explain(work, settle.proof, settle.verb)?;
    let kind = match miss.settled.status {
        SettledStatus::Done | SettledStatus::Already => return Ok(miss.settled),
        SettledStatus::Refused if miss.other_verb => turno_contract::ErrorKind::Conflict,
        SettledStatus::Refused => turno_contract::ErrorKind::LeaseLost,
        SettledStatus::Gone => turno_contract::ErrorKind::NotFound,
    };
    let job = settle.proof.job;
    Err(Error::new(kind, format!("job {job}: {}", miss.settled.reason.unwrap_or_default())))
}

/// Records a refusal that happened inside a caller's transaction.
pub(crate) fn refused_record(work: &Work, worker: &str, refused: &Refused) -> Result<()> {
    let miss = explain(work, refused.proof, refused.verb)?;
    let detail = refused.detail.as_deref().map(|detail| cut_error(detail).0);
    record(work, worker, refused.proof, refused.verb, detail, &miss)
}

/// Ends the attempt if the proof is the current one.
fn accept(work: &Work, settle: &Settle) -> Result<Option<Settled>> {
    let statement = match settle.verb {
        Verb::Complete => "complete.prove",
        Verb::Fail => "fail.prove",
        _ => "release.prove",
    };
    let proof = settle.proof;
    let token = proof.token.as_uuid();
    let proven = work.row(
        statement,
        &[(":job", &proof.job.0), (":attempt", &proof.attempt), (":token", &token.as_bytes().as_slice())],
        |row| row.get(0),
    )?;
    let Some(job) = proven else { return Ok(None) };
    let (state, run_at) = end_attempt(work, job, &settle.ending)?;
    let run_at = run_at.map(instant);
    Ok(Some(Settled { status: SettledStatus::Done, state: Some(state), run_at, reason: None }))
}

/// Why a settle found nothing to end.
struct Miss {
    settled: Settled,
    /// The proof was used, with another verb.
    other_verb: bool,
    queue: Option<String>,
    owner: Option<String>,
    owner_attempt: Option<i64>,
    state_now: Option<State>,
}

fn explain(work: &Work, proof: Proof, verb: Verb) -> Result<Miss> {
    let token = proof.token.as_uuid();
    work.one(
        "settle_miss.explain",
        &[
            (":job", &proof.job.0),
            (":attempt", &proof.attempt),
            (":token", &token.as_bytes().as_slice()),
            (":verb", &verb.as_str()),
        ],
        |row| {
            let mut columns = Columns::of(row);
            let status = match columns.text()?.as_str() {
                "already" => SettledStatus::Already,
                "gone" => SettledStatus::Gone,
                _ => SettledStatus::Refused,
            };
            let other_verb = columns.value()?;
            let (state, run_at) = (columns.state_opt()?, columns.instant_opt()?);
            let reason = columns.text_opt()?.filter(|_| status != SettledStatus::Already);
            Ok(Miss {
                settled: Settled { status, state, run_at, reason },
                other_verb,
                queue: columns.text_opt()?,
                owner: columns.text_opt()?,
                owner_attempt: columns.value()?,
                state_now: columns.state_opt()?,
            })
        },
    )
}

fn record(
    work: &Work,
    worker: &str,
    proof: Proof,
    verb: Verb,
    detail: Option<String>,
    miss: &Miss,
) -> Result<()> {
    let (job, attempt, verb) = (proof.job.0, proof.attempt, verb.as_str());
    let reason = miss.settled.reason.as_deref().unwrap_or("refused in a transaction; accepted elsewhere");
    let repeated = work.execute(
        "ledger.repeat",
        &[(":job", &job), (":attempt", &attempt), (":verb", &verb), (":now", &work.now)],
    )?;
    if repeated > 0 {
        return Ok(());
    }
    let added = work.execute(
        "ledger.add",
        &[
            (":job", &job),
            (":queue", &miss.queue),
            (":attempt", &attempt),
            (":verb", &verb),
            (":worker", &worker),
            (":reason", &reason),
            (":detail", &detail),
            (":owner", &miss.owner),
            (":owner_attempt", &miss.owner_attempt),
            (":state", &miss.state_now.map(State::as_str)),
            (":now", &work.now),
        ],
    )?;
    if added == 0 {
        work.execute("ledger.overflow", &[(":job", &job), (":now", &work.now)])?;
    }
    Ok(())
}
