//! The checks while the run goes on and at its end, all of them from what the trait `Backend` answers. It refuses to
//! take a worker's word for anything that the database can say.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use turno::{BoxedBackend, JobFilter, JobId, JobRecord, Result, State, limits};

use crate::protocol::Answer;
use crate::run::{Ended, Late, Model, Run};
use crate::story::Story;

/// How long a call of the checks is repeated while the database is down.
const PATIENCE: Duration = Duration::from_secs(90);
/// How many ended jobs wait in memory for the end, where each is looked at once more.
const PAGE: u32 = limits::PAGE_ROWS_MAX;

/// Repeats a call as long as repeating may help.
async fn patiently<T, F, Fut>(call: F) -> Result<T>
where
    F: Fn() -> Fut,
    Fut: Future<Output = Result<T>>,
{
    let began = Instant::now();
    loop {
        match call().await {
            Err(error) if error.is_transient() && began.elapsed() < PATIENCE => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            other => return other,
        }
    }
}

/// Looks after the open jobs until the run is over.
pub(crate) async fn watch(run: Arc<Run>) {
    while !run.is_over() {
        if let Err(error) = look(&run).await {
            run.violation("check", format!("the database cannot be asked: {error}"), Vec::new());
            return;
        }
        run.pause(Duration::from_millis(150)).await;
    }
}

/// One look at every open job: those that have ended are checked and closed.
pub(crate) async fn look(run: &Run) -> Result<()> {
    read_effects(run);
    let open: Vec<JobId> = run.model().open.iter().copied().collect();
    for id in open {
        let record = patiently(|| run.database.backend.job(id)).await?;
        let Some(record) = record else {
            run.violation("lost", format!("job {id} was enqueued and has no record"), Vec::new());
            run.model().open.remove(&id);
            continue;
        };
        if record.failures > record.max_attempts {
            run.violation("budget", format!("job {id} has {} failures", record.failures), Vec::new());
        }
        if record.state.is_final() {
            close(run, record).await?;
        }
    }
    Ok(())
}

fn read_effects(run: &Run) {
    let read = run.sinks().read_on();
    match read {
        Ok(faults) => faults.into_iter().for_each(|text| run.violation("effects", text, Vec::new())),
        Err(error) => run.violation("effects", format!("the ledger cannot be read: {error}"), Vec::new()),
    }
}

/// A job has ended: from here on it must not change.
async fn close(run: &Run, record: JobRecord) -> Result<()> {
    let ended = Ended { state: record.state, attempt: record.attempt, finished_at: record.finished_at };
    let story = gather(run, record).await?;
    judge(run, &story);
    let mut tally = run.tally();
    tally.attempts += story.attempts.len() as u64;
    tally.expired += story.expiries().len() as u64;
    tally.recoveries.extend(story.recoveries());
    drop(tally);
    let mut model = run.model();
    model.open.remove(&story.record.id);
    model.ended.insert(story.record.id, ended);
    Ok(())
}

/// Everything known about one job.
pub(crate) async fn gather(run: &Run, record: JobRecord) -> Result<Story> {
    let backend: &BoxedBackend = &run.database.backend;
    let id = record.id;
    let attempts = patiently(|| backend.attempts(id)).await?;
    let (told, struck, cancel_asked) = {
        let model = run.model();
        (
            model.told.get(&id.0).cloned().unwrap_or_default(),
            model.struck.get(&id.0).cloned().unwrap_or_default(),
            model.cancel_asked.contains(&id),
        )
    };
    // Only after what was told: whatever was told is in the ledger by now.
    let refused = patiently(|| backend.refused(Some(id), None, limits::REFUSED_ROWS_PER_JOB_MAX)).await?;
    read_effects(run);
    let effects = run.sinks().operations.get(&record.operation_id).cloned();
    let lease = run.options.lease;
    Ok(Story { record, attempts, refused, told, struck, effects, cancel_asked, lease })
}

fn judge(run: &Run, story: &Story) {
    let id = story.record.id;
    for (check, text) in story.check() {
        run.violation(check, format!("job {id}: {text}"), story.tell());
    }
    for expiry in story.expiries() {
        let held = run.model().held.contains(&(id.0, expiry.attempt));
        if !held && !run.is_excused(&expiry) {
            let text = format!(
                "job {id}: the lease of attempt {} on {} ended, and nothing had happened to it",
                expiry.attempt, expiry.worker
            );
            run.violation("expired_without_cause", text, story.tell());
        }
    }
}

/// The checks once nothing moves any more.
pub(crate) async fn final_checks(run: &Run) -> Result<()> {
    look(run).await?;
    let open: Vec<JobId> = run.model().open.iter().copied().collect();
    for id in open {
        let Some(record) = patiently(|| run.database.backend.job(id)).await? else { continue };
        let limit = run.options.settle_limit();
        let text = format!("job {id} is still {} {limit:?} after the last fault", record.state);
        let story = gather(run, record).await?;
        run.violation("liveness", text, story.tell());
    }
    let ended = listing(run).await?;
    compare(run, &ended);
    check_told(run, &ended).await?;
    for finding in patiently(|| run.database.backend.audit()).await? {
        let example = finding.example.map_or(String::new(), |id| format!(", such as job {id}"));
        let text = format!("{}: {} rows{example}: {}", finding.check, finding.rows, finding.meaning);
        run.violation("audit", text, Vec::new());
    }
    check_stats(run).await
}

/// Every job of the queue, as the listings show it.
async fn listing(run: &Run) -> Result<HashMap<JobId, JobRecord>> {
    let mut found = HashMap::new();
    for state in State::ALL {
        let mut before = None;
        loop {
            let filter =
                JobFilter { state: *state, queue: Some(run.queue.clone()), kind: None, before, limit: PAGE };
            let page = patiently(|| run.database.backend.jobs(&filter)).await?;
            let Some(last) = page.last() else { break };
            before = Some(last.id);
            for record in page {
                if let Some(twice) = found.insert(record.id, record) {
                    let text = format!("job {} is listed as {} and as {state}", twice.id, twice.state);
                    run.violation("final_state", text, Vec::new());
                }
            }
        }
    }
    Ok(found)
}

/// What is there is what was enqueued, and nothing that had ended has changed.
fn compare(run: &Run, listed: &HashMap<JobId, JobRecord>) {
    let Model { ended, open, .. } = &*run.model();
    for (id, was) in ended {
        match listed.get(id) {
            None => {
                run.violation("lost", format!("job {id} had ended as {} and is gone", was.state), Vec::new())
            }
            Some(is)
                if (is.state, is.attempt, is.finished_at) != (was.state, was.attempt, was.finished_at) =>
            {
                let text = format!(
                    "job {id} had ended as {was:?} and is now {} in attempt {}",
                    is.state, is.attempt
                );
                run.violation("final_state", text, Vec::new());
            }
            Some(_) => {}
        }
    }
    for id in listed.keys().filter(|id| !ended.contains_key(id) && !open.contains(id)) {
        run.violation(
            "enqueued_twice",
            format!("job {id} is in the queue, and no answer named it"),
            Vec::new(),
        );
    }
}

/// Answers that came after the job's story had been checked are checked now.
async fn check_told(run: &Run, listed: &HashMap<JobId, JobRecord>) -> Result<()> {
    let jobs: Vec<i64> = run.model().told.keys().copied().collect();
    for id in jobs {
        let Some(record) = listed.get(&JobId(id)) else { continue };
        let story = gather(run, record.clone()).await?;
        for (check, text) in story.check() {
            run.violation(check, format!("job {id}: {text}"), story.tell());
        }
    }
    Ok(())
}

/// Attempts that stood still until their lease was reaped, returned, and whose late result has not been refused yet. It
/// has to come, unless the worker was ended meanwhile.
pub(crate) async fn late_results(run: &Run) -> Result<Vec<String>> {
    let late = run.model().late.clone();
    let mut missing = Vec::new();
    for Late { job, attempt, worker } in late {
        if run.was_ended(&worker) {
            continue;
        }
        let answered = run.model().told.get(&job).is_some_and(|told| {
            let mut of_it = told.iter().filter(|told| told.attempt == attempt && !told.rogue);
            of_it.any(|told| matches!(told.status, Answer::Refused | Answer::Gone))
        });
        let attempts = patiently(|| run.database.backend.attempts(JobId(job))).await?;
        let expired =
            attempts.iter().any(|ended| ended.attempt == attempt && ended.verb == turno::Verb::Expire);
        if expired && !answered {
            missing.push(format!(
                "job {job}: the late result of attempt {attempt} on {worker} was never refused"
            ));
        }
    }
    Ok(missing)
}

/// The cheap view agrees that nothing is left.
async fn check_stats(run: &Run) -> Result<()> {
    let stats = patiently(|| run.database.backend.stats(Duration::from_secs(3600))).await?;
    if !run.model().open.is_empty() {
        return Ok(());
    }
    for line in stats.iter().filter(|line| line.queue == run.queue) {
        let left = line.ready.n + line.scheduled.n + line.running.n;
        if left > 0 {
            run.violation("stats", format!("stats counts {left} jobs that have not ended"), Vec::new());
        }
    }
    Ok(())
}
