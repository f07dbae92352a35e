//! The run from beginning to end: database, workers, workload, faults, calm, the last checks, the report. It refuses to
//! end before every process that it started has ended.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use time::OffsetDateTime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use turno::{Engine, Error, ErrorKind, Keep, NewJob, Result, SettingsChange, Token, limits};

use crate::checker;
use crate::effects::Sinks;
use crate::engine::Database;
use crate::inject::{Field, inject};
use crate::memory::KEPT_MAX;
use crate::options::{Fault, Options};
use crate::plan::{Bounds, draw};
use crate::process::memory_kib;
use crate::proxy::Proxy;
use crate::report::{FaultLine, NotRun, Report};
use crate::run::{EVERYBODY, Run};
use crate::server::OwnServer;
use crate::slot::Slot;
use crate::workload;

/// More than any process of a run needs, and little enough that a leak shows within minutes.
const MEMORY_MAX_KIB: u64 = 256 * 1024;
/// How long workers have to end once they are told to.
const END_WITHIN: Duration = Duration::from_secs(20);
/// How long late results have to arrive after everything has settled.
const LATE_WITHIN: Duration = Duration::from_secs(8);
const PRODUCERS: u64 = 2;

/// Runs the whole test. `said` is told what goes on, line by line; the first line has the seed.
///
/// Errors: what keeps the run from beginning. What goes wrong later is in the report.
pub async fn run(mut options: Options, said: impl Fn(&str)) -> Result<Report> {
    said(&format!("seed {}", options.seed));
    options.check()?;
    let server = match options.own_server {
        Some(engine) => Some(OwnServer::start(engine).await?),
        None => None,
    };
    if let Some(server) = &server {
        options.url = Some(server.url());
    }
    with_server(options, server, &said).await
}

async fn with_server(options: Options, server: Option<OwnServer>, said: &impl Fn(&str)) -> Result<Report> {
    let url = options.url.clone().unwrap_or_default();
    let database = Database::connect(&url).await?;
    if database.backend.migrate(true).await?.version_before.is_none() {
        database.backend.migrate(false).await?;
    }
    refuse_faulty(&database).await?;
    let folder = tempfile::Builder::new().prefix("turno-torture-").tempdir().map_err(internal)?;
    let ledger = folder.path().join("effects");
    let offset = clock_offset(&database, options.seed).await?;
    let run = Run::new(options, database, offset, Sinks::new(&ledger));
    prepare_queue(&run).await?;
    let engine = run.database.backend.engine();
    let (faults, not_run) = choose(&run.options, engine);
    let field = lay_out(&run, &url, server, &faults).await?;
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for slot in &field.slots {
        tasks.spawn(Arc::clone(slot).keep(Arc::clone(&run), ledger.display().to_string()));
    }
    start_workload(&run, &field, &url, &mut tasks).await?;
    let bounds = Bounds {
        workers: run.options.workers,
        lease: run.options.lease,
        length: Duration::from_secs(run.options.seconds),
        one_writer: engine == Engine::Sqlite,
    };
    let plan = draw(run.options.seed, &faults, &bounds);
    said(&format!(
        "{} faults planned over {} s on {engine}, queue {}",
        plan.len(),
        run.options.seconds,
        run.queue
    ));
    let injecting = tokio::spawn(inject(Arc::clone(&field), plan));
    wait_for_the_end(&run).await;
    run.calm.send_replace(true);
    if let Err(error) = injecting.await {
        run.violation("supervisor", format!("a fault's task failed: {error}"), Vec::new());
    }
    let seconds = began.elapsed().as_secs_f64();
    said("the faults are over; everything has to settle now");
    let settled = settle(&run, &field).await;
    end_everything(&run, &field, tasks).await;
    if !run.options.stop_early || !run.has_failed() {
        let checked = checker::final_checks(&run).await;
        if let Err(error) = checked {
            run.violation("check", format!("the database cannot be asked: {error}"), Vec::new());
        }
    }
    check_clock_took_part(&run, &field);
    if !run.has_failed() && !run.options.keep && run.options.own_server.is_none() {
        clean_up(&run).await;
    }
    let report = report(&run, engine, not_run, seconds, settled);
    if let Some(server) = &field.server {
        server.stop().await;
    }
    Ok(report)
}

fn internal(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("cannot make a folder: {error}")).with_source(error)
}

/// What was wrong before would be blamed on the run.
async fn refuse_faulty(database: &Database) -> Result<()> {
    let findings = database.backend.audit().await?;
    match findings.first() {
        None => Ok(()),
        Some(finding) => {
            let text = format!("the audit of this database is not clean before the run: {}", finding.meaning);
            Err(Error::new(ErrorKind::Conflict, text))
        }
    }
}

/// How far the database's clock is ahead of ours, from the instant that it writes into a new job.
async fn clock_offset(database: &Database, seed: u64) -> Result<time::Duration> {
    let queue = format!("torture-{seed}-clock");
    let before = SystemTime::now();
    let job = database.backend.enqueue(&[NewJob::new(queue, "clock", "{}").max_attempts(1)]).await?[0].id;
    let middle = OffsetDateTime::from(before) + before.elapsed().unwrap_or_default() / 2;
    let record = database.backend.job(job).await?;
    database.backend.cancel(job, false).await?;
    database.backend.forget(job).await?;
    let missing = || Error::new(ErrorKind::Internal, "a job that was just enqueued has no record");
    Ok(record.ok_or_else(missing)?.created_at - middle)
}

/// Retries come soon, and records are kept for the checks.
async fn prepare_queue(run: &Run) -> Result<()> {
    let change = SettingsChange {
        description: Some("turno torture; may be removed".into()),
        retry_base: Some(Duration::from_millis(100)),
        retry_cap: Some(Duration::from_secs(1)),
        keep_succeeded: Some(Keep::Forever),
        keep_cancelled: Some(Keep::Forever),
        keep_dead: Some(Keep::Forever),
        ..SettingsChange::default()
    };
    run.database.backend.queue_set(Some(&run.queue), &change).await.map(drop)
}

fn choose(options: &Options, engine: Engine) -> (Vec<Fault>, Vec<NotRun>) {
    let (mut faults, mut not_run) = (Vec::new(), Vec::new());
    for fault in Fault::ALL.into_iter().filter(|fault| options.faults.contains(fault)) {
        match options.not_run(fault, engine) {
            None => faults.push(fault),
            Some(reason) => not_run.push(NotRun { fault, reason: reason.to_owned() }),
        }
    }
    (faults, not_run)
}

/// A proxy for every worker, and one for the producers.
async fn lay_out(
    run: &Arc<Run>,
    url: &str,
    server: Option<OwnServer>,
    faults: &[Fault],
) -> Result<Arc<Field>> {
    let proxied = crate::engine::protocol(url).is_some();
    let nodes: Vec<&str> = std::iter::once(url).chain(run.options.nodes.iter().map(String::as_str)).collect();
    let mut slots = Vec::new();
    for index in 0..run.options.workers {
        let proxy = match proxied {
            true => Some(Proxy::start(nodes[index % nodes.len()], &Slot::application(run, index)).await?),
            false => None,
        };
        // One wrong clock among right ones.
        let wrong_clock = faults.contains(&Fault::Clock) && index == run.options.workers - 1;
        slots.push(Slot::new(index, proxy, wrong_clock));
    }
    let producers = match proxied {
        true => Some(Proxy::start(url, &format!("{}-producers", run.queue)).await?),
        false => None,
    };
    let (restarting, holding_row) = Default::default();
    Ok(Arc::new(Field { run: Arc::clone(run), slots, producers, server, restarting, holding_row }))
}

async fn start_workload(run: &Arc<Run>, field: &Field, url: &str, tasks: &mut JoinSet<()>) -> Result<()> {
    let url = field.producers.as_ref().map_or(url, |proxy| &proxy.url);
    for producer in 0..PRODUCERS {
        let database = Database::connect(url).await.map_err(|error| {
            let text = format!(
                "{} (through the proxy, which reads what passes and so speaks no TLS)",
                error.message()
            );
            Error::new(error.kind(), text).with_source(error)
        })?;
        tasks.spawn(workload::produce(Arc::clone(run), database, producer));
    }
    tasks.spawn(workload::operate(Arc::clone(run)));
    tasks.spawn(workload::forge(Arc::clone(run)));
    tasks.spawn(checker::watch(Arc::clone(run)));
    let canary = Database::connect(run.options.url.as_deref().unwrap_or(url)).await?;
    tasks.spawn(watch_the_server(Arc::clone(run), canary));
    tasks.spawn(watch_ourselves(Arc::clone(run), field.slots.clone()));
    Ok(())
}

/// Until the time is over, a violation ends it early, or somebody wants it to end: then everything that was started is
/// still taken down.
async fn wait_for_the_end(run: &Run) {
    let end = run.active() + Duration::from_secs(run.options.seconds);
    tokio::select! {
        () = run.wait_until_or_calm(end) => {}
        _ = tokio::signal::ctrl_c() => {}
        () = terminated() => {}
    }
}

async fn terminated() {
    match signal(SignalKind::terminate()) {
        // It answers nothing only if the runtime goes away, and this with it.
        Ok(mut signals) => drop(signals.recv().await),
        Err(_) => std::future::pending().await,
    }
}

/// Calls that no fault can touch, again and again: if even these are slow, the server or the machine is, and everybody is
/// excused. Now and then one that writes, since a disk may stand still for writers alone; with one writer it waits for
/// transactions that are held open on purpose, so it has more time than they may take.
async fn watch_the_server(run: Arc<Run>, canary: Database) {
    let (queue, mut calls) = (format!("{}-canary", run.queue), 0_u32);
    while !run.is_over() {
        // The same words again would not be written.
        let description = Some(format!("turno torture; may be removed; call {calls}"));
        let change = SettingsChange { description, ..SettingsChange::default() };
        let before = Instant::now();
        let writes = calls.is_multiple_of(4);
        let (answer, limit) = match writes {
            true => (canary.backend.queue_set(Some(&queue), &change).await.map(drop), run.options.lease / 3),
            false => (canary.backend.held(Token::random()).await.map(drop), run.options.lease / 6),
        };
        let took = before.elapsed();
        if let Some(error) = answer.as_ref().err().filter(|error| !error.is_transient()) {
            run.violation("canary", format!("a plain call failed: {error}"), Vec::new());
        }
        if took > limit || answer.is_err() {
            run.excuse(EVERYBODY, took, Some(run.options.lease));
        }
        calls = calls.wrapping_add(1);
        run.pause(Duration::from_millis(100)).await;
    }
}

/// Memory of every process, and stalls of the whole machine, which excuse everybody.
async fn watch_ourselves(run: Arc<Run>, slots: Vec<Arc<Slot>>) {
    const TICK: Duration = Duration::from_millis(100);
    let mut ticks = 0_u32;
    while !run.is_over() {
        let before = Instant::now();
        run.pause(TICK).await;
        let late = before.elapsed().saturating_sub(TICK);
        if late > run.options.lease / 4 {
            run.excuse(EVERYBODY, late, Some(run.options.lease));
        }
        ticks += 1;
        if !ticks.is_multiple_of(10) {
            continue;
        }
        let lives = slots.iter().filter_map(|slot| slot.life());
        for (who, kib) in lives.filter_map(|life| Some((life.label.clone(), life.process.memory_kib()?))) {
            let before = run.tally().memory_max_kib;
            run.tally().memory_max_kib = before.max(kib);
            check_memory(&run, &who, before, kib);
        }
        let own = memory_kib(std::process::id()).unwrap_or_default();
        let before = run.tally().own_memory_max_kib;
        run.tally().own_memory_max_kib = before.max(own);
        check_memory(&run, "the supervisor", before, own);
    }
}

/// Says it once.
fn check_memory(run: &Run, who: &str, before_kib: u64, kib: u64) {
    if kib > MEMORY_MAX_KIB && before_kib <= MEMORY_MAX_KIB {
        run.violation("memory", format!("{who} has {} MiB", kib / 1024), Vec::new());
    }
}

/// Waits until everything has ended, and late results have come; answers how long the former took.
async fn settle(run: &Run, field: &Field) -> Duration {
    field.calm();
    let began = run.active();
    while run.active() < began + run.options.settle_limit() && !run.is_over() {
        if run.model().open.is_empty() {
            break;
        }
        run.pause(Duration::from_millis(100)).await;
    }
    let settled = run.active() - began;
    let late_by = run.active() + LATE_WITHIN;
    while !run.is_over() {
        match checker::late_results(run).await {
            Ok(missing) if missing.is_empty() => break,
            Ok(missing) if run.active() > late_by => {
                for text in missing {
                    run.violation("late_result", text, Vec::new());
                }
                break;
            }
            Ok(_) => {}
            Err(error) => {
                run.violation("check", format!("the database cannot be asked: {error}"), Vec::new());
                break;
            }
        }
        run.pause(Duration::from_millis(100)).await;
    }
    settled
}

async fn end_everything(run: &Run, field: &Field, mut tasks: JoinSet<()>) {
    run.calm.send_replace(true);
    run.over.send_replace(true);
    field.calm();
    field.end_workers();
    let all = async {
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                run.violation("supervisor", format!("a task of the run failed: {error}"), Vec::new());
            }
        }
    };
    let in_time = tokio::select! {
        () = all => true,
        () = run.wait_until(run.active() + END_WITHIN) => false,
    };
    if !in_time {
        let left = field.kill_workers();
        run.violation("shutdown", format!("{left:?} did not end within {END_WITHIN:?}"), Vec::new());
    }
}

/// A wrong clock that did nothing proves nothing.
fn check_clock_took_part(run: &Run, field: &Field) {
    let expected = field.slots.iter().any(|slot| slot.has_wrong_clock()) && run.options.seconds >= 10;
    if expected && !run.has_failed() && run.tally().wrong_clock_jobs == 0 {
        run.violation("clock", "the worker with the wrong clock settled no job", Vec::new());
    }
}

/// Removes the jobs of a run that found nothing.
async fn clean_up(run: &Run) {
    let at_once = SettingsChange {
        keep_succeeded: Some(Keep::For(Duration::ZERO)),
        keep_cancelled: Some(Keep::For(Duration::ZERO)),
        keep_dead: Some(Keep::For(Duration::ZERO)),
        receipts: Some(Duration::ZERO),
        ..SettingsChange::default()
    };
    let backend = &run.database.backend;
    for queue in [run.queue.clone(), format!("{}-reuse", run.queue)] {
        // What stays behind is a record in a queue of a telling name; no reason to fail.
        let _ = backend.queue_set(Some(&queue), &at_once).await;
    }
    while let Ok(pruned) = backend.prune(limits::MAINTENANCE_ROWS_MAX).await {
        if pruned.jobs == 0 {
            break;
        }
    }
}

fn report(run: &Run, engine: Engine, not_run: Vec<NotRun>, seconds: f64, settled: Duration) -> Report {
    let (tally, model, sinks) = (run.tally(), run.model(), run.sinks());
    let mut places: Vec<_> = tally.injected.keys().chain(tally.not_reached.keys()).cloned().collect();
    places.sort();
    places.dedup();
    let of = |map: &std::collections::BTreeMap<_, u64>, key| map.get(key).copied().unwrap_or_default();
    let mut faults: Vec<FaultLine> = places
        .iter()
        .map(|key| FaultLine {
            fault: key.0,
            place: key.1.clone(),
            injected: of(&tally.injected, key),
            not_reached: of(&tally.not_reached, key),
        })
        .collect();
    if tally.wrong_clock_jobs > 0 {
        let place = "one worker, an hour ahead".to_owned();
        faults.push(FaultLine { fault: Fault::Clock, place, injected: 1, not_reached: 0 });
    }
    Report {
        seed: run.options.seed,
        engine,
        repeat: run.options.command(),
        seconds,
        workers: run.options.workers,
        lease_ms: run.options.lease.as_millis() as u64,
        faults,
        not_run,
        enqueued: model.enqueued,
        succeeded: model.ended.count(turno::State::Succeeded),
        dead: model.ended.count(turno::State::Dead),
        cancelled: model.ended.count(turno::State::Cancelled),
        attempts: tally.attempts,
        expired: tally.expired,
        lost_enqueue_answers: model.lost_answers,
        already: tally.already,
        refused: tally.refused,
        forged_refused: tally.forged,
        duplicate_effects: sinks.duplicates,
        fenced_effects: sinks.fenced,
        transient_errors: tally.transient,
        processes: tally.workers_started,
        wrong_clock_settles: tally.wrong_clock_jobs,
        recoveries: tally.recoveries.len(),
        recover_p50_ms: tally.recoveries.percentile_ms(0.5),
        recover_p99_ms: tally.recoveries.percentile_ms(0.99),
        settled_within_ms: settled.as_millis() as u64,
        memory_max_kib: tally.memory_max_kib,
        own_memory_max_kib: tally.own_memory_max_kib,
        jobs_kept_max: tally.jobs_kept_max,
        jobs_kept_bound: KEPT_MAX,
        violations: run.violations(),
    }
}
