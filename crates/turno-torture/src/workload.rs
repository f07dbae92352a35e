//! Who else works on the queue: producers who repeat what was not answered, an operator who cancels, and a client that
//! shows proofs which are not current. They refuse to know the plan.

use std::sync::Arc;
use std::time::Duration;

use time::OffsetDateTime;
use turno::{
    Beat, BoxedBackend, ClaimRequest, Claimed, Completion, Enqueued, Error, Failure, HeartbeatAnswer,
    JobFilter, JobId, NewJob, Proof, Release, Result, Retry, SettledStatus, State, Token, Verb,
};

use crate::engine::Database;
use crate::protocol::Work;
use crate::run::Run;
use crate::slot::CONCURRENCY;
use crate::story::Told;

/// Failure budget of jobs that shall survive what is done to their workers.
const PATIENT_ATTEMPTS: u32 = 50;
/// Jobs that are open at the same time, for every handler there is.
const OPEN_PER_HANDLER: usize = 2;
/// Enqueues until calm; whatever was not answered is repeated until it is.
pub(crate) async fn produce(run: Arc<Run>, database: Database, producer: u64) {
    let mut random = fastrand::Rng::with_seed(run.options.seed.wrapping_mul(31).wrapping_add(producer));
    // Not through `Queue`, which repeats by itself: here each lost answer is counted.
    let backend = database.backend;
    let open_max = run.options.workers * CONCURRENCY * OPEN_PER_HANDLER;
    let mut number = 0;
    while !run.is_calm() {
        if run.model().open.len() >= open_max {
            run.pause_until_calm(Duration::from_millis(20)).await;
            continue;
        }
        let jobs: Vec<NewJob> = (0..random.usize(1..6))
            .map(|_| {
                number += 1;
                draw(&run, &mut random, &format!("{producer}-{number}"))
            })
            .collect();
        let Some(answers) = enqueue(&run, &backend, &jobs).await else { return };
        note(&run, &jobs, &answers);
        if random.u8(0..4) == 0 {
            repeat(&run, &backend, &jobs, &answers).await;
        }
        run.pause_until_calm(Duration::from_millis(random.u64(5..60))).await;
    }
}

fn draw(run: &Run, random: &mut fastrand::Rng, key: &str) -> NewJob {
    let lease_ms = run.options.lease.as_millis() as u64;
    let mut work = Work { ms: random.u64(5..120), fails: 0, transaction: false, snoozes: false };
    let mut max_attempts = PATIENT_ATTEMPTS;
    let kind = match random.u8(0..10) {
        0 | 1 => {
            work.ms = random.u64(lease_ms / 2..lease_ms * 2);
            "slow"
        }
        2 | 3 => {
            work.transaction = true;
            "transaction"
        }
        4 => {
            work.fails = random.u32(1..4);
            "fails"
        }
        5 => {
            max_attempts = random.u32(1..4);
            work.fails = u32::MAX;
            "dies"
        }
        6 => {
            work.snoozes = true;
            "snoozes"
        }
        _ => "quick",
    };
    // A structure of numbers and booleans is always JSON.
    let payload = serde_json::to_string(&work).unwrap_or_default();
    let mut job =
        NewJob::new(run.queue.clone(), kind, payload).max_attempts(max_attempts).idempotency_key(key);
    if random.u8(0..6) == 0 {
        job = job.run_at(OffsetDateTime::now_utc() + Duration::from_millis(random.u64(0..800)));
    }
    if random.u8(0..8) == 0 {
        job = job.unique_key(format!("unique-{}", random.u8(0..20)));
    }
    job
}

/// Repeats until there is an answer; `None` if the run is over.
async fn enqueue(run: &Run, backend: &BoxedBackend, jobs: &[NewJob]) -> Option<Vec<Enqueued>> {
    loop {
        match backend.enqueue(jobs).await {
            Ok(answers) => return Some(answers),
            Err(error) if error.is_transient() || error.outcome_is_unknown() => {
                if error.outcome_is_unknown() {
                    run.model().lost_answers += 1;
                }
                if run.is_over() {
                    return None;
                }
                run.pause(Duration::from_millis(50)).await;
            }
            Err(error) => {
                run.violation("enqueue", format!("an enqueue was refused: {error}"), Vec::new());
                return None;
            }
        }
    }
}

/// Takes in what was answered. One job stands for several keys only if they share a unique key.
fn note(run: &Run, jobs: &[NewJob], answers: &[Enqueued]) {
    let mut twice = Vec::new();
    let mut model = run.model();
    for (job, answer) in jobs.iter().zip(answers) {
        let new = !model.ended.contains(answer.id) && model.open.insert(answer.id);
        if new {
            model.enqueued += 1;
        } else if job.unique_key.is_none() {
            twice.push(answer.id);
        }
    }
    drop(model);
    for id in twice {
        run.violation("enqueue", format!("job {id} stands for two idempotency keys"), Vec::new());
    }
}

/// The same keys again must answer the same ids, and create nothing.
async fn repeat(run: &Run, backend: &BoxedBackend, jobs: &[NewJob], answers: &[Enqueued]) {
    let Some(again) = enqueue(run, backend, jobs).await else { return };
    for (before, after) in answers.iter().zip(&again) {
        if before.id != after.id || after.created {
            let text = format!(
                "repeated enqueue of job {} answered {} (created: {})",
                before.id, after.id, after.created
            );
            run.violation("idempotency", text, Vec::new());
        }
    }
}

/// Cancels some jobs, some of them by force.
pub(crate) async fn operate(run: Arc<Run>) {
    let mut random = fastrand::Rng::with_seed(run.options.seed ^ 0x6f70);
    while !run.is_calm() {
        run.pause_until_calm(Duration::from_millis(random.u64(200..900))).await;
        let chosen = {
            let mut model = run.model();
            let open: Vec<JobId> = model.open.iter().copied().collect();
            let chosen = random.choice(&open).copied();
            model.cancel_asked.extend(chosen);
            chosen
        };
        let Some(job) = chosen else { continue };
        let answer = run.database.backend.cancel(job, random.u8(0..3) == 0).await;
        if let Err(error) = answer
            && !error.is_transient()
        {
            run.violation("cancel", format!("cancel of job {job}: {error}"), Vec::new());
        }
    }
}

/// Shows wrong proofs, all of which must be refused and recorded.
pub(crate) async fn forge(run: Arc<Run>) {
    let mut random = fastrand::Rng::with_seed(run.options.seed ^ 0x666f);
    while !run.is_calm() {
        run.pause_until_calm(Duration::from_millis(random.u64(100..400))).await;
        let result = match random.bool() {
            true => forge_tokens(&run, &mut random).await,
            false => reuse_token(&run).await,
        };
        if let Err(error) = result
            && !error.is_transient()
        {
            run.violation("forge", format!("a wrong proof was answered with an error: {error}"), Vec::new());
        }
    }
}

/// The right job and attempt with a token that nobody was given.
async fn forge_tokens(run: &Run, random: &mut fastrand::Rng) -> Result<()> {
    let filter = JobFilter {
        state: State::Running,
        queue: Some(run.queue.clone()),
        kind: None,
        before: None,
        limit: 3,
    };
    for job in run.database.backend.jobs(&filter).await?.jobs {
        let proof = Proof { job: job.id, attempt: job.attempt, token: Token::random() };
        let beat =
            run.database.backend.heartbeat(&[Beat { proof, started: true }], run.options.lease).await?;
        if let Some(HeartbeatAnswer::Held { .. }) = beat.first() {
            run.violation(
                "forged_proof",
                format!("a heartbeat with a wrong token holds job {}", job.id),
                Vec::new(),
            );
        }
        let verb = [Verb::Complete, Verb::Fail, Verb::Release][random.usize(0..3)];
        settle(run, verb, proof).await?;
    }
    Ok(())
}

/// One token for two attempts of one job: the first attempt's proof is worth nothing in the second.
async fn reuse_token(run: &Run) -> Result<()> {
    let (backend, queue) = (&run.database.backend, format!("{}-reuse", run.queue));
    let job = backend.enqueue(&[NewJob::new(queue.clone(), "reuse", "{}")]).await?[0].id;
    let request = ClaimRequest::one(queue, "rogue").lease(Duration::from_secs(600));
    let Claimed { jobs, .. } = backend.claim(&request).await?;
    let Some(first) = jobs.first().map(|job| job.proof) else { return Ok(()) };
    backend.release("rogue", &[Release { proof: first, delay: None }]).await?;
    let Claimed { jobs, .. } = backend.claim(&request).await?;
    let Some(second) = jobs.iter().map(|job| job.proof).find(|proof| proof.job == first.job) else {
        return Ok(());
    };
    let answer = backend.complete("rogue", &[Completion { proof: first, result: None }]).await?;
    if answer.first().is_none_or(|settled| settled.status != SettledStatus::Refused) {
        let text = format!(
            "attempt {} of job {job} was completed while attempt {} held it: {answer:?}",
            first.attempt, second.attempt
        );
        run.violation("forged_proof", text, Vec::new());
    }
    backend.complete("rogue", &[Completion { proof: second, result: None }]).await?;
    Ok(())
}

async fn settle(run: &Run, verb: Verb, proof: Proof) -> Result<()> {
    let backend = &run.database.backend;
    let answers = match verb {
        Verb::Complete => backend.complete("rogue", &[Completion { proof, result: None }]).await?,
        Verb::Fail => {
            backend.fail("rogue", &[Failure { proof, error: "forged".into(), retry: Retry::Policy }]).await?
        }
        _ => backend.release("rogue", &[Release { proof, delay: None }]).await?,
    };
    let Some(settled) = answers.first() else {
        return Err(Error::new(turno::ErrorKind::Internal, "no answer to one settle"));
    };
    let (job, attempt) = (proof.job, proof.attempt);
    if matches!(settled.status, SettledStatus::Done | SettledStatus::Already) {
        let text = format!("{verb} of job {job}, attempt {attempt}, was accepted with a wrong token");
        run.violation("forged_proof", text, Vec::new());
    }
    let (status, state) = (settled.status.into(), settled.state);
    run.note_told(job.0, Told { attempt, verb, status, state, worker: "rogue".into(), rogue: true });
    Ok(())
}
