//! The one place where an attempt ends (rules S1, S2, F1..F7, P8). What becomes of the job is decided by the statement
//! `end_attempt.decide`; here it is carried out.

use turno_contract::{Result, State, Verb, cut_error, limits};

use crate::rows::Columns;
use crate::work::Work;

/// How an attempt ends.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ending {
    /// `None`: a waiting job is cancelled, and no attempt ends.
    pub(crate) verb: Option<Verb>,
    /// JSON text.
    pub(crate) result: Option<String>,
    /// Cut to its limit.
    pub(crate) error: Option<String>,
    /// The length of the error before it was cut.
    pub(crate) error_bytes: Option<i64>,
    /// `None`: by policy, or for what is not charged the old due time.
    pub(crate) delay_ms: Option<i64>,
    /// Not to be tried again.
    pub(crate) never: bool,
}

impl Ending {
    /// An ending by this verb with this error text, however long (rule F6).
    pub(crate) fn with_error(verb: Verb, error: &str) -> Self {
        let (text, bytes) = cut_error(error);
        Ending { verb: Some(verb), error: Some(text), error_bytes: Some(bytes), ..Ending::default() }
    }
}

struct Decision {
    state: State,
    run_at: Option<i64>,
    failures: i64,
    charged: bool,
    keep: String,
    step: i64,
    attempt: i64,
}

/// Ends the current attempt of a job whose proof has been checked, or cancels a waiting job. Answers the state that
/// follows and when the job is due again.
pub(crate) fn end_attempt(work: &Work, job: i64, ending: &Ending) -> Result<(State, Option<i64>)> {
    let verb = ending.verb.map(Verb::as_str);
    let decision = work.one(
        "end_attempt.decide",
        &[
            (":job", &job),
            (":verb", &verb),
            (":delay_ms", &ending.delay_ms),
            (":never", &ending.never),
            (":now", &work.now),
        ],
        |row| {
            let mut columns = Columns::of(row);
            Ok(Decision {
                state: columns.state()?,
                run_at: columns.value()?,
                failures: columns.value()?,
                charged: columns.value()?,
                keep: columns.text()?,
                step: columns.value()?,
                attempt: columns.value()?,
            })
        },
    )?;
    if decision.state.is_final() {
        finish(work, job, ending, &decision)?;
    } else {
        go_on(work, job, ending, &decision)?;
    }
    if decision.attempt > i64::from(2 * limits::ATTEMPTS_KEPT_EACH_END) {
        work.execute("end_attempt.trim_attempts", &[(":job", &job), (":attempt", &decision.attempt)])?;
    }
    Ok((decision.state, decision.run_at))
}

fn go_on(work: &Work, job: i64, ending: &Ending, decision: &Decision) -> Result<()> {
    let verb = ending.verb.map(Verb::as_str);
    let state = decision.state.as_str();
    work.execute(
        "end_attempt.record_attempt",
        &[
            (":job", &job),
            (":verb", &verb),
            (":charged", &decision.charged),
            (":error", &ending.error),
            (":error_bytes", &ending.error_bytes),
            (":state", &state),
            (":run_at", &decision.run_at),
            (":now", &work.now),
        ],
    )?;
    work.execute(
        "end_attempt.go_on",
        &[
            (":job", &job),
            (":verb", &verb),
            (":charged", &decision.charged),
            (":state", &state),
            (":run_at", &decision.run_at),
            (":failures", &decision.failures),
            (":step", &decision.step),
        ],
    )?;
    if decision.state == State::Ready {
        work.ring();
    }
    Ok(())
}

fn finish(work: &Work, job: i64, ending: &Ending, decision: &Decision) -> Result<()> {
    if decision.keep == "nothing" {
        forget(work, job)?;
    } else {
        work.execute(
            "finish.record",
            &[
                (":job", &job),
                (":outcome", &decision.state.as_str()),
                (":keep", &decision.keep),
                (":verb", &ending.verb.map(Verb::as_str)),
                (":result", &ending.result),
                (":failures", &decision.failures),
                (":charged", &decision.charged),
                (":error", &ending.error),
                (":error_bytes", &ending.error_bytes),
                (":now", &work.now),
            ],
        )?;
    }
    work.execute("finish.leave", &[(":job", &job)])?;
    Ok(())
}

/// Removes the record of an ended job, with its attempts and keys.
pub(crate) fn forget(work: &Work, job: i64) -> Result<()> {
    for statement in ["finish.forget_record", "finish.forget_attempts", "finish.forget_keys"] {
        work.execute(statement, &[(":job", &job)])?;
    }
    Ok(())
}
