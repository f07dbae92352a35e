//! The cases. Rule C1 and the promise of upgrades: nothing is lost, and no job is completed twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use turno::{BoxedBackend, ErrorKind, NewJob};

use crate::ahead::enqueue_v2;
use crate::common::{lines, signal, until};
use crate::newer::{self, Migration};
use crate::rig::{Engine, Rig};

type Case = fn(&Rig);

/// A call of a worker or producer while a migration waits for a lock: far more than the migration may wait, far less than
/// the transaction that it waits for.
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);

/// The cases of an engine.
pub fn of(engine: Engine) -> Vec<(&'static str, Case)> {
    let mut cases: Vec<(&'static str, Case)> = vec![
        ("a_migration_that_is_killed_at_every_step_ends_the_same", killed_at_every_step),
        ("a_binary_refuses_a_newer_schema_only_if_that_demands_it", older_binary),
    ];
    if engine != Engine::Sqlite {
        cases.push(("a_migration_behind_a_long_transaction_stops_nobody", behind_a_long_transaction));
    }
    if engine == Engine::Postgres {
        cases.push(("an_index_whose_build_was_killed_is_built_again", killed_build));
        cases.push(("a_build_that_goes_on_without_its_program_is_waited_for", orphaned_build));
    }
    cases
}

/// The new program migrates undisturbed: what the schema is then.
fn undisturbed(engine: Engine) -> Vec<String> {
    let rig = Rig::new(engine);
    Migration::start(&rig.url).finish();
    rig.picture()
}

fn killed_at_every_step(rig: &Rig) {
    let expected = undisturbed(rig.engine);
    let old_worker = rig.old_worker("old");
    let producer = Producer::start(rig);
    if rig.engine != Engine::Sqlite {
        assert_too_old_for_the_new_program(rig);
    }
    let mut kills = 0;
    while !killed_at(rig, kills) {
        kills += 1;
        let done = lines(&rig.path("old")).len();
        until("the old worker goes on", || lines(&rig.path("old")).len() > done + 1 || has_no_claim(rig));
    }
    // Locked, the files, their records, the routines, the grants, the end.
    assert!(kills >= 3, "only {kills} steps");
    assert_eq!(difference(&rig.picture(), &expected), Vec::<String>::new());
    let new_worker = newer::worker(&rig.url, rig.path("new").to_str().unwrap());
    let mut owner = rig.owner();
    for _ in 0..20 {
        owner.execute(enqueue_v2(rig.engine));
    }
    let done = lines(&rig.path("old")).len();
    until("both work", || lines(&rig.path("new")).len() > 4 && lines(&rig.path("old")).len() > done + 4);
    let enqueued = producer.stop() + 20;
    until("every job has ended", || owner.count("job", "1 = 1") == 0);
    for (mut worker, status) in [(old_worker, 143), (new_worker, 0)] {
        signal(worker.id(), Signal::TERM);
        assert_eq!(worker.wait().unwrap().code(), Some(status));
    }
    assert_each_once(rig, enqueued);
}

/// Runs a migration of the new program up to a step and kills it there; whether it was done before.
fn killed_at(rig: &Rig, step: usize) -> bool {
    let mut migration = Migration::start(&rig.url);
    for _ in 0..step {
        if migration.step().is_none() {
            return true;
        }
        migration.go_on();
    }
    let reached = migration.step();
    if reached.is_none() {
        return true;
    }
    // Some are killed before the step, some inside of it.
    if step % 2 == 1 {
        migration.go_on();
    }
    migration.kill();
    false
}

/// Killed between dropping a routine and making it anew, as MySQL and MariaDB have to, a migration leaves workers waiting
/// until it is run again.
fn has_no_claim(rig: &Rig) -> bool {
    let sql = "SELECT routine_name FROM information_schema.routines WHERE routine_schema = 'turno' AND routine_name = 'claim'";
    matches!(rig.engine, Engine::Mariadb | Engine::Mysql) && rig.owner().rows(sql).is_empty()
}

/// Every job that was enqueued has succeeded, nothing was refused, and no attempt ran twice.
fn assert_each_once(rig: &Rig, enqueued: u64) {
    let mut owner = rig.owner();
    assert_eq!(owner.count("finished_job", "outcome = 'succeeded'"), enqueued);
    assert_eq!(owner.count("finished_job", "outcome <> 'succeeded'"), 0);
    assert_eq!(owner.count("refused", "1 = 1"), 0);
    let ran = [lines(&rig.path("old")), lines(&rig.path("new"))].concat();
    let mut attempts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in &ran {
        let (job, attempt) = line.split_once(' ').unwrap();
        assert!(attempts.entry(job).or_default().insert(attempt), "attempt {line} ran twice");
    }
    assert_eq!(attempts.len() as u64, enqueued, "a job succeeded that never ran");
    let audit = rig.call(&["audit"]);
    assert_eq!(audit.status, Some(0), "{audit:?}");
}

fn assert_too_old_for_the_new_program(rig: &Rig) {
    let error = block_on(async {
        let backend = newer::connect(&rig.url, |_| ()).await.unwrap();
        backend.queue_list().await.unwrap_err()
    });
    assert_eq!(error.kind(), ErrorKind::VersionMismatch, "{error}");
    assert!(error.message().contains("run turno migrate"), "{error}");
}

fn older_binary(rig: &Rig) {
    Migration::start(&rig.url).finish();
    assert_eq!(rig.call(&["enqueue", "--queue", "jobs", "--kind", "k"]).status, Some(0));
    let answer = rig.call(&["stats"]);
    assert_eq!(answer.status, Some(0), "the schema still serves it: {answer:?}");
    let answer = rig.call(&["migrate"]);
    assert_eq!(answer.status, Some(6), "{answer:?}");
    assert!(answer.error_line().contains("newer"), "{answer:?}");
    if rig.engine == Engine::Sqlite {
        let answer = rig.call(&["run", "--", "true"]);
        assert_eq!(answer.status, Some(0), "run makes a schema only where there is none: {answer:?}");
    }
    let mut owner = rig.owner();
    let meta = owner.table("meta");
    owner.execute(&format!("UPDATE {meta} SET oldest_binary = 2"));
    for command in [&["stats"][..], &["enqueue", "--queue", "jobs", "--kind", "k"]] {
        let answer = rig.call(command);
        assert_eq!(answer.status, Some(6), "{answer:?}");
        let says = answer.error_line();
        assert!(
            says.contains("version 3") && says.contains("needs a binary of version 2 or newer"),
            "{says}"
        );
    }
    assert_eq!(owner.count("job", "1 = 1"), 1, "a refused program writes nothing");
}

/// Somebody's transaction keeps a lock on the table that the migration has to change: claims and enqueues are answered all
/// the same, and the migration ends when the transaction does.
fn behind_a_long_transaction(rig: &Rig) {
    assert_eq!(rig.call(&["enqueue", "--queue", "held", "--kind", "k"]).status, Some(0));
    let mut holder = rig.owner();
    holder.execute("BEGIN");
    holder.execute("UPDATE turno.job SET priority = 1 WHERE id = 1");
    let mut migration = Migration::start(&rig.url);
    migration.run_to("0002_job_note");
    migration.go_on();
    let migration = std::thread::spawn(move || migration.finish());
    let mut watcher = rig.owner();
    let waiting = match rig.engine {
        Engine::Postgres => {
            "SELECT pid::text FROM pg_locks WHERE NOT granted AND relation = 'turno.job'::regclass"
        }
        _ => {
            "SELECT CAST(id AS char) FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata lock'"
        }
    };
    let backend = block_on(turno::connect(&rig.url)).unwrap();
    let (mut seen, mut was) = (0, false);
    until("the migration has asked for its lock three times", || {
        let is = !watcher.rows(waiting).is_empty();
        seen += u32::from(is && !was);
        was = is;
        let begun = Instant::now();
        block_on(backend.enqueue(&[NewJob::new("jobs", "k", "1")])).unwrap();
        assert!(begun.elapsed() < ANSWERED_WITHIN, "an enqueue took {:?}", begun.elapsed());
        seen >= 3
    });
    assert!(!migration.is_finished(), "the transaction was in the way");
    holder.execute("COMMIT");
    migration.join().unwrap();
    assert_eq!(rig.owner().count("job", "queue = 'held' AND priority = 1"), 1);
    assert_eq!(difference(&rig.picture(), &undisturbed(rig.engine)), Vec::<String>::new());
}

const BUILDING: &str =
    "SELECT pid::text FROM pg_stat_progress_create_index WHERE datname = current_database()";
const VALID: &str = "SELECT indisvalid::text || ' ' || indexrelid FROM pg_index WHERE indexrelid = to_regclass('turno.job_note')";

/// The program is killed while its index is built, and the server's build waits for a transaction of somebody else.
fn killed_in_its_build(rig: &Rig) -> (crate::rig::Owner, String) {
    let mut migration = Migration::start(&rig.url);
    migration.run_to("0003_job_note_online");
    let mut holder = rig.owner();
    holder.execute("BEGIN; SELECT turno.enqueue('jobs', 'k', '1')");
    migration.go_on();
    let mut building = Vec::new();
    until("the index is being built", || {
        building = rig.owner().rows(BUILDING);
        !building.is_empty()
    });
    migration.kill();
    (holder, building.remove(0))
}

fn killed_build(rig: &Rig) {
    let (mut holder, builder) = killed_in_its_build(rig);
    rig.owner().execute(&format!("SELECT pg_terminate_backend({builder})"));
    until("the build has ended", || rig.owner().rows(BUILDING).is_empty());
    assert!(
        rig.owner().rows(VALID)[0].starts_with("false"),
        "a build that was cut off leaves an invalid index"
    );
    holder.execute("COMMIT");
    let old_worker = rig.old_worker("old");
    until("work goes on with half an index", || !lines(&rig.path("old")).is_empty());
    Migration::start(&rig.url).finish();
    drop(old_worker);
    assert_eq!(difference(&rig.picture(), &undisturbed(rig.engine)), Vec::<String>::new());
}

fn orphaned_build(rig: &Rig) {
    let (mut holder, _) = killed_in_its_build(rig);
    let mut migration = Migration::start(&rig.url);
    migration.run_to("0003_job_note_online");
    migration.go_on();
    let index = rig.owner().rows(VALID).remove(0);
    holder.execute("COMMIT");
    migration.finish();
    let oid = index.rsplit(' ').next().unwrap();
    assert_eq!(rig.owner().rows(VALID), [format!("true {oid}")], "the same index, and not another one");
    assert_eq!(difference(&rig.picture(), &undisturbed(rig.engine)), Vec::<String>::new());
}

/// A producer of the old program's library, which enqueues until it is stopped.
struct Producer {
    stop: Arc<AtomicBool>,
    enqueued: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Producer {
    fn start(rig: &Rig) -> Self {
        let (stop, enqueued) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let url = if rig.engine == Engine::Sqlite { format!("sqlite:{}", rig.url) } else { rig.url.clone() };
        let shared = (stop.clone(), enqueued.clone());
        let thread = std::thread::spawn(move || {
            block_on(async {
                let backend = turno::connect(&url).await.unwrap();
                while !shared.0.load(Ordering::Relaxed) {
                    enqueue(&backend).await;
                    shared.1.fetch_add(1, Ordering::Relaxed);
                    std::thread::park_timeout(Duration::from_millis(30));
                }
            });
        });
        Producer { stop, enqueued, thread }
    }

    /// How many jobs it has enqueued.
    fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.enqueued.load(Ordering::Relaxed)
    }
}

/// Like a program that is in no hurry: what is transient is tried again, with a key, so that it is no second job.
async fn enqueue(backend: &BoxedBackend) {
    let mut job = NewJob::new("jobs", "k", "1");
    job.idempotency_key = Some(uuid::Uuid::new_v4().to_string());
    let begun = Instant::now();
    while let Err(error) = backend.enqueue(std::slice::from_ref(&job)).await {
        assert!(error.is_transient() && begun.elapsed() < ANSWERED_WITHIN, "{error}");
        std::thread::park_timeout(Duration::from_millis(30));
    }
}

/// Lines that only one of the two has.
fn difference(one: &[String], other: &[String]) -> Vec<String> {
    let only = |a: &[String], b: &[String], sign: char| -> Vec<String> {
        a.iter().filter(|line| !b.contains(line)).map(|line| format!("{sign} {line}")).collect()
    };
    [only(one, other, '+'), only(other, one, '-')].concat()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
