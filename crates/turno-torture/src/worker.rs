//! The worker process: the binary itself under its hidden command. An ordinary `turno::Worker` with a handler that
//! writes its effects outside the database, and gates where the supervisor may have it stand still. It refuses to
//! know the plan: what happens to it, happens from outside.

use std::io::BufRead;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use turno::{
    CancelCause, ClaimedJob, Completion, Context, ErrorKind, Event, Hook, JobError, JobResult, Refused,
    Result, Verb, Worker,
};

use crate::effects::{Effect, Ledger, token_hash};
use crate::engine::Database;
use crate::gate::{Gates, say};
use crate::protocol::{Answer, Outcome, Place, Said, Setup, Told, Work};

/// How long a worker tries to reach a database that is down when it starts.
const CONNECT_WITHIN: Duration = Duration::from_secs(120);
/// How long a refusal in a handler's own transaction is tried to be recorded.
const RECORD_WITHIN: Duration = Duration::from_secs(30);
/// How often the watch looks at the clock.
const TICK: Duration = Duration::from_millis(50);

/// What the hidden command runs: reads its setup and its orders from standard input, and works until SIGTERM.
pub fn worker_main() -> ExitCode {
    let mut line = String::new();
    let setup = match std::io::stdin().lock().read_line(&mut line) {
        Ok(_) => serde_json::from_str::<Setup>(&line),
        Err(error) => Err(serde_json::Error::io(error)),
    };
    let setup = match setup {
        Ok(setup) => setup,
        Err(error) => {
            eprintln!("torture worker: started without a setup: {error}");
            return ExitCode::from(2);
        }
    };
    let gates = Arc::new(Gates::default());
    listen(Arc::clone(&gates));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let ended = runtime.map_err(|error| error.to_string()).and_then(|runtime| {
        let ended = runtime.block_on(work(setup, gates)).map_err(|error| format!("{error:?}"));
        // A handler that stands at a gate must not keep the process.
        runtime.shutdown_background();
        ended
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("torture worker: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Takes orders on a thread of its own. A supervisor that is gone takes its workers with it.
fn listen(gates: Arc<Gates>) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if let Ok(told) = serde_json::from_str::<Told>(&line) {
                gates.told(told);
            }
        }
        std::process::exit(3);
    });
}

/// Reports when this process got no processor time, which explains a lease that ended.
fn watch_for_stalls(limit: Duration) {
    std::thread::spawn(move || {
        loop {
            let before = Instant::now();
            std::thread::sleep(TICK);
            let late = before.elapsed().saturating_sub(TICK);
            if late > limit {
                say(&Said::Stall { ms: late.as_millis() as u64 });
            }
        }
    });
}

/// What the handlers share.
struct Shared {
    database: Database,
    ledger: Ledger,
    gates: Arc<Gates>,
}

async fn work(setup: Setup, gates: Arc<Gates>) -> Result<()> {
    let lease = Duration::from_millis(setup.lease_ms);
    watch_for_stalls(lease / 4);
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    say(&Said::Hello { wall_us: since.as_micros() as i64 });
    let database = connect(&setup.url).await?;
    let ledger = Ledger::open(&setup.ledger).map_err(|error| {
        turno::Error::new(ErrorKind::Internal, format!("the ledger {}: {error}", setup.ledger))
            .with_source(error)
    })?;
    let backend = database.backend.clone();
    let shared = Shared { database, ledger, gates: Arc::clone(&gates) };
    let worker = Worker::builder(backend)
        .state(shared)
        .queue(setup.queue)
        .name(setup.name)
        .concurrency(setup.concurrency)
        .lease(lease)
        .poll(Duration::from_millis(10), Duration::from_millis(200))
        .shutdown_grace(Duration::from_millis(800))
        .hook(Teller { gates, limit: lease / 4 })
        .raw_handler(handle)
        .build()?;
    turno::signals::shutdown_on_signals(worker.handle())?;
    worker.run().await.map(drop)
}

/// The server may be down, or out of connections, at this very moment.
async fn connect(url: &str) -> Result<Database> {
    let began = Instant::now();
    loop {
        match Database::connect(url).await {
            Err(error) if error.is_transient() && began.elapsed() < CONNECT_WITHIN => {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            other => return other,
        }
    }
}

async fn handle(context: Context<Shared>, job: ClaimedJob) -> JobResult {
    let (id, attempt) = (job.proof.job.0, job.proof.attempt);
    let result = attempt_it(&context, job).await;
    context.state().gates.returns(id, attempt);
    result
}

async fn attempt_it(context: &Context<Shared>, job: ClaimedJob) -> JobResult {
    let Ok(work) = serde_json::from_str::<Work>(&job.payload) else {
        return Err(JobError::new("the payload is none of torture's").never());
    };
    let shared = context.state();
    let proof = job.proof;
    let (id, attempt) = (proof.job.0, proof.attempt);
    let effect = Effect {
        operation_id: job.operation_id,
        job: id,
        attempt,
        token_hash: token_hash(proof.token),
        worker: context.worker().to_owned(),
        opens: true,
    };
    shared.gates.reach_async(Place::Handler, id, attempt).await;
    shared.ledger.write(&effect)?;
    // A lost lease does not stop this handler: its late result is what the queue has to refuse.
    let nap = tokio::time::sleep(Duration::from_millis(work.ms));
    tokio::pin!(nap);
    tokio::select! {
        () = &mut nap => {}
        () = context.cancelled() => match context.cancel_cause() {
            Some(CancelCause::Shutdown) => {
                shared.gates.reach_async(Place::Shutdown, id, attempt).await;
                return Err(JobError::release());
            }
            _ => nap.await,
        }
    }
    if work.snoozes && attempt == 1 {
        return Err(JobError::snooze(Duration::from_millis(50)));
    }
    if job.failures < work.fails {
        return Err(JobError::new(format!("attempt {attempt} fails as it was asked to")));
    }
    shared.ledger.write(&Effect { opens: false, ..effect })?;
    shared.gates.reach_async(Place::Effect, id, attempt).await;
    let outcome = Outcome { attempt, worker: context.worker().to_owned() };
    let result = serde_json::to_string(&outcome)?;
    if work.transaction {
        return complete_in_transaction(context, result).await;
    }
    Ok(Some(result))
}

/// Completes in the handler's own transaction. What it returns is then told again, and answered `already`.
async fn complete_in_transaction(context: &Context<Shared>, result: String) -> JobResult {
    let (shared, proof) = (context.state(), context.proof());
    let completion = Completion { proof, result: Some(result.clone()) };
    let gates = Arc::clone(&shared.gates);
    let hold = move || gates.reach(Place::Hold, proof.job.0, proof.attempt);
    let Err(error) = shared.database.complete_in(context.worker(), completion, hold).await else {
        return Ok(Some(result));
    };
    if !matches!(error.kind(), ErrorKind::LeaseLost | ErrorKind::Conflict | ErrorKind::NotFound) {
        // Lost on the way; the verdict below decides.
        return Ok(Some(result));
    }
    let refused = Refused { proof, verb: Verb::Complete, detail: Some(error.message().to_owned()) };
    let began = Instant::now();
    while let Err(error) = shared.database.backend.refused_record(context.worker(), &refused).await {
        if !error.is_transient() || began.elapsed() > RECORD_WITHIN {
            return Err(error.into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (job, attempt) = (proof.job.0, proof.attempt);
    say(&Said::Settled { job, attempt, verb: Verb::Complete, status: Answer::Refused, state: None });
    Ok(Some(result))
}

/// Tells the supervisor what the worker sees.
struct Teller {
    gates: Arc<Gates>,
    limit: Duration,
}

impl Teller {
    fn note_slow(&self, took: Duration) {
        if took > self.limit {
            say(&Said::Slow { ms: took.as_millis() as u64 });
        }
    }
}

impl Hook for Teller {
    /// Standing still here is standing still on the control thread: no heartbeat leaves meanwhile.
    fn event(&self, _at: Instant, event: &Event<'_>) {
        match event {
            Event::Claimed { jobs, took } => {
                self.note_slow(*took);
                if let Some(job) = jobs.first() {
                    self.gates.reach(Place::Claimed, job.proof.job.0, job.proof.attempt);
                }
            }
            Event::Heartbeat { took, .. } => self.note_slow(*took),
            Event::Ended { proof, .. } => {
                self.gates.ended(proof.job.0, proof.attempt);
            }
            Event::Settled { proof, verb, status, state, .. } => say(&Said::Settled {
                job: proof.job.0,
                attempt: proof.attempt,
                verb: *verb,
                status: (*status).into(),
                state: *state,
            }),
            Event::TransientError { operation, error } => {
                say(&Said::Trouble { operation: (*operation).to_owned(), error: error.to_string() })
            }
            _ => {}
        }
    }
}
