//! `turno job show --follow`: a line for each change of a job until it has ended. It refuses to miss an attempt that was
//! over between two looks: ended attempts are read as well.

use std::time::Duration;

use turno::{AttemptRecord, BoxedBackend, JobId, JobRecord, State};

use crate::args::App;
use crate::exit::{Exit, Fault};
use crate::output::one_line;
use crate::parse::show_instant;
use crate::views::{Attempt, Job};

/// Between two looks: from the first to the second while nothing changes.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How many looks in a row may fail because the database is away.
const FAILURES_MAX: u32 = 30;

/// Follows the job to its end.
pub async fn run(app: &mut App, backend: &BoxedBackend, id: JobId) -> anyhow::Result<Exit> {
    let (mut last, mut attempts_told, mut pause, mut failures) = (None, 0, PAUSE_MIN, 0);
    loop {
        match look(backend, id).await {
            Ok(None) if last.is_none() => {
                return Err(Fault::new(Exit::Conflict, format!("there is no job {id}")).into());
            }
            Ok(None) => {
                return Err(Fault::new(Exit::Conflict, format!("the record of job {id} is gone")).into());
            }
            Ok(Some((job, attempts))) => {
                failures = 0;
                for attempt in attempts.iter().filter(|attempt| attempt.attempt > attempts_told) {
                    app.output.either(&Attempt::from(attempt), |_| attempt_line(attempt))?;
                    pause = PAUSE_MIN;
                }
                attempts_told =
                    attempts.last().map_or(attempts_told, |attempt| attempt.attempt.max(attempts_told));
                let now = (job.state, job.attempt, job.run_at, job.cancel_requested_at);
                if last.replace(now) != Some(now) {
                    app.output.either(&Job::new(&job, false), |_| job_line(&job))?;
                    pause = PAUSE_MIN;
                }
                app.output.flush()?;
                if job.state.is_final() {
                    return Ok(if job.state == State::Succeeded { Exit::Ok } else { Exit::BadNews });
                }
            }
            Err(error) if error.is_transient() && failures < FAILURES_MAX => failures += 1,
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

async fn look(backend: &BoxedBackend, id: JobId) -> turno::Result<Option<(JobRecord, Vec<AttemptRecord>)>> {
    // The attempts second, so that those of a job which was seen at its end are all there.
    let Some(job) = backend.job(id).await? else { return Ok(None) };
    let attempts = backend.attempts(id).await?;
    Ok(Some((job, attempts)))
}

fn attempt_line(attempt: &AttemptRecord) -> String {
    let error =
        attempt.error.as_deref().map(|error| format!(": {}", one_line(error, 200))).unwrap_or_default();
    let at = show_instant(attempt.ended_at);
    format!("{at}  attempt {} ended by {}{error}", attempt.attempt, attempt.verb)
}

fn job_line(job: &JobRecord) -> String {
    let worker = job.worker.as_deref().unwrap_or("nobody");
    let (at, what) = match job.state {
        State::Running => {
            (job.claimed_at.unwrap_or(job.run_at), format!("attempt {} by {worker}", job.attempt))
        }
        state if state.is_final() => (job.finished_at.unwrap_or(job.run_at), String::new()),
        _ => (job.run_at, "from here on".to_owned()),
    };
    let asked =
        if job.cancel_requested_at.is_some() && !job.state.is_final() { ", asked to stop" } else { "" };
    format!("{}  {} {what}{asked}", show_instant(at), job.state).trim_end().to_owned()
}
