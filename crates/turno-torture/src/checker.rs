//! The checks while the run goes on and at its end, all of them from what the trait `Backend` answers. It refuses to
//! take a worker's word for anything that the database can say.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use turno::{BoxedBackend, JobFilter, JobId, JobRecord, Result, State, Verb, limits};

use crate::memory::{Blocks, Ended, KEPT_FOR};
use crate::run::{Late, Run};
use crate::story::Story;

/// How long a call of the checks is repeated while the database is down.
const PATIENCE: Duration = Duration::from_secs(90);
/// How often old jobs are set aside.
const TIDY_EVERY: Duration = Duration::from_secs(2);
/// How much longer than the oldest open job excuses are kept: its enqueue may have been answered late.
const EXCUSES_FOR: Duration = Duration::from_secs(600);
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
    let mut tidied = Instant::now();
    while !run.is_over() {
        let mut looked = look(&run).await;
        if looked.is_ok() && tidied.elapsed() > TIDY_EVERY {
            looked = tidy(&run).await;
            tidied = Instant::now();
        }
        if let Err(error) = looked {
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
    let mut oldest = run.now();
    for id in open {
        let record = patiently(|| run.database.backend.job(id)).await?;
        let Some(record) = record else {
            run.violation("lost", format!("job {id} was enqueued and has no record"), Vec::new());
            run.model().open.remove(&id);
            continue;
        };
        oldest = oldest.min(record.created_at);
        if record.failures > record.max_attempts {
            run.violation("budget", format!("job {id} has {} failures", record.failures), Vec::new());
        }
        if record.state.is_final() {
            close(run, record).await?;
        }
    }
    run.forget_before(oldest - EXCUSES_FOR);
    Ok(())
}

/// Sets aside what has been kept for long enough, so that a long run needs no more memory than a short one.
async fn tidy(run: &Run) -> Result<()> {
    run.count_kept();
    let late = run.model().late.clone();
    for late in late {
        if is_resolved(run, &late).await? {
            run.model().late.retain(|other| (other.job, other.attempt) != (late.job, late.attempt));
        }
    }
    loop {
        let Some(job) = run.model().ended.due(Instant::now()) else { break };
        let told_late = run.model().told_late.contains(&job);
        if told_late {
            check_again(run, job, false).await?;
        }
        run.model().forget(job);
        run.sinks().forget(job.0);
    }
    let in_effects: Vec<i64> = run.sinks().jobs().collect();
    let strays = {
        let mut model = run.model();
        let mentioned = model.mentioned(in_effects.into_iter());
        model.strays.expire(mentioned, Instant::now())
    };
    for job in strays {
        check_again(run, job, true).await?;
        run.model().forget(job);
        run.sinks().forget(job.0);
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
    let ended = Ended::from(&record);
    let story = gather(run, record).await?;
    judge(run, &story);
    let mut tally = run.tally();
    tally.attempts += story.attempts.len() as u64;
    tally.expired += story.expiries().len() as u64;
    story.recoveries().into_iter().for_each(|time| tally.recoveries.add(time));
    drop(tally);
    let (id, mut model) = (story.record.id, run.model());
    model.open.remove(&id);
    model.ended.insert(id, ended);
    // Something may have been said between the gathering and now.
    if model.told.get(&id.0).map_or(0, Vec::len) > story.told.len() {
        model.told_late.insert(id);
    }
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
    Ok(Story { record, attempts, refused, told, struck, effects, cancel_asked, lease, partial: false })
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
    compare(run).await?;
    let told: Vec<i64> = run.model().told.keys().copied().collect();
    for job in told.into_iter().map(JobId) {
        let partial = run.model().ended.get(job).is_none();
        check_again(run, job, partial).await?;
    }
    for finding in patiently(|| run.database.backend.audit()).await? {
        let example = finding.example.map_or(String::new(), |id| format!(", such as job {id}"));
        let text = format!("{}: {} rows{example}: {}", finding.check, finding.rows, finding.meaning);
        run.violation("audit", text, Vec::new());
    }
    check_stats(run).await
}

/// What is there is what was enqueued, and nothing that had ended has changed: by itself if the job is still kept, else by
/// the sum.
async fn compare(run: &Run) -> Result<()> {
    let mut missing: HashMap<JobId, Ended> = run.model().ended.kept().collect();
    let (mut seen, mut aside) = (HashSet::new(), Blocks::default());
    for state in State::ALL {
        let mut before = None;
        loop {
            let filter =
                JobFilter { state: *state, queue: Some(run.queue.clone()), kind: None, before, limit: PAGE };
            let page = patiently(|| run.database.backend.jobs(&filter)).await?;
            before = page.next(PAGE);
            for record in page.jobs {
                missing.remove(&record.id);
                compare_one(run, &record, &mut seen, &mut aside);
            }
            if before.is_none() {
                break;
            }
        }
    }
    for (id, was) in missing {
        run.violation("lost", format!("job {id} had ended as {} and is gone", was.state), Vec::new());
    }
    let differences = run.model().ended.aside().differences(&aside);
    for text in differences {
        run.violation("final_state", text, Vec::new());
    }
    Ok(())
}

fn compare_one(run: &Run, record: &JobRecord, seen: &mut HashSet<JobId>, aside: &mut Blocks) {
    let (id, is) = (record.id, Ended::from(record));
    let (was, open, may_be_aside) = {
        let model = run.model();
        (model.ended.get(id), model.open.contains(&id), model.ended.aside().reach(id))
    };
    if was.is_none() && !open {
        match may_be_aside {
            true => aside.add(id, is),
            false => {
                let text = format!("job {id} is in the queue, and no answer named it");
                run.violation("enqueued_twice", text, Vec::new());
            }
        }
        return;
    }
    if !seen.insert(id) {
        run.violation("final_state", format!("job {id} is listed twice, now as {}", is.state), Vec::new());
    }
    if let Some(was) = was.filter(|was| *was != is) {
        run.violation("final_state", format!("job {id} had ended as {was:?} and is now {is:?}"), Vec::new());
    }
}

/// Checks what was told after the job's story had been checked.
async fn check_again(run: &Run, id: JobId, partial: bool) -> Result<()> {
    let Some(record) = patiently(|| run.database.backend.job(id)).await? else { return Ok(()) };
    if record.queue != run.queue || !record.state.is_final() {
        return Ok(());
    }
    let story = Story { partial, ..gather(run, record).await? };
    for (check, text) in story.check() {
        run.violation(check, format!("job {id}: {text}"), story.tell());
    }
    Ok(())
}

/// Whether nothing more has to come of an attempt that stood still and returned.
async fn is_resolved(run: &Run, late: &Late) -> Result<bool> {
    if run.was_ended(&late.worker) || run.model().was_refused(late) {
        return Ok(true);
    }
    Ok(late.since.elapsed() > KEPT_FOR
        && how_it_ended(run, late).await?.is_some_and(|verb| verb != Verb::Expire))
}

async fn how_it_ended(run: &Run, late: &Late) -> Result<Option<Verb>> {
    let attempts = patiently(|| run.database.backend.attempts(JobId(late.job))).await?;
    Ok(attempts.iter().find(|ended| ended.attempt == late.attempt).map(|ended| ended.verb))
}

/// Attempts that stood still until their lease was reaped, returned, and whose late result has not been refused yet. It
/// has to come, unless the worker was ended meanwhile.
pub(crate) async fn late_results(run: &Run) -> Result<Vec<String>> {
    let late = run.model().late.clone();
    let mut missing = Vec::new();
    for late in late {
        if run.was_ended(&late.worker) || run.model().was_refused(&late) {
            continue;
        }
        if how_it_ended(run, &late).await? == Some(Verb::Expire) {
            let Late { job, attempt, worker, .. } = late;
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
