//! Torture of the shipped schemas, which must be clean, and of schemas from which one condition was taken out, which must
//! be caught. The program starts itself again as a worker, so it has a main of its own.

mod rig;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use turno::Engine;
use turno_torture::{Fault, Options, Report, WORKER_COMMAND};

use crate::rig::{Database, POSTGRES_URL};

/// Within this time each mutation must be caught.
const CAUGHT_WITHIN: Duration = Duration::from_secs(60);

/// A change of the shipped schema, and the checks of which at least one must see it.
struct Mutation {
    name: &'static str,
    engine: Engine,
    sql: fn() -> String,
    seen_by: &'static [&'static str],
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(WORKER_COMMAND) {
        return turno_torture::worker_main();
    }
    let arguments = Arguments::from_args();
    let has_postgres = std::env::var_os(POSTGRES_URL).is_some();
    if !has_postgres {
        println!("PostgreSQL: not run, since {POSTGRES_URL} is not set (scripts/test sets it)");
    }
    let absent = |engine| engine == Engine::Postgres && !has_postgres;
    let clean = [(Engine::Sqlite, 10, 11), (Engine::Postgres, 14, 12)].map(|(engine, seconds, seed)| {
        let trial = Trial::test(format!("{}::every_check_holds", engine.as_str()), move || {
            clean(engine, seconds, seed)
        });
        trial.with_ignored_flag(absent(engine))
    });
    let mutations = MUTATIONS.iter().map(|mutation| {
        let name = format!("{}::{}", mutation.engine.as_str(), mutation.name);
        Trial::test(name, move || caught(mutation)).with_ignored_flag(absent(mutation.engine))
    });
    libtest_mimic::run(&arguments, clean.into_iter().chain(mutations).collect()).exit_code()
}

const MUTATIONS: &[Mutation] = &[
    Mutation {
        name: "a_complete_without_the_token_is_caught",
        engine: Engine::Postgres,
        sql: || without(rig::COMPLETE, " AND j.token = r.token", ""),
        seen_by: &["forged_proof", "stale_result", "answer"],
    },
    Mutation {
        name: "a_complete_without_the_attempt_is_caught",
        engine: Engine::Postgres,
        sql: || without(rig::COMPLETE, " AND j.attempt = r.attempt", ""),
        seen_by: &["forged_proof", "stale_result", "answer"],
    },
    Mutation {
        name: "a_complete_by_the_id_alone_is_caught",
        engine: Engine::Postgres,
        sql: || without(rig::COMPLETE, " AND j.attempt = r.attempt AND j.token = r.token", ""),
        seen_by: &["forged_proof", "stale_result", "answer"],
    },
    Mutation {
        name: "an_unconditional_reaper_is_caught",
        engine: Engine::Postgres,
        sql: || without(rig::REAP, " AND j.lease_until < v_now", ""),
        seen_by: &["expired_early"],
    },
    Mutation {
        name: "an_expiry_that_charges_nothing_is_caught",
        engine: Engine::Postgres,
        sql: || without(rig::END_ATTEMPT, "IN ('fail', 'expire')", "IN ('fail')"),
        seen_by: &["charge"],
    },
    // The statements of SQLite are inside the program; triggers bring about the same rows.
    Mutation {
        name: "a_reaper_of_leases_that_go_on_is_caught",
        engine: Engine::Sqlite,
        sql: || {
            "CREATE TRIGGER mutation AFTER UPDATE OF state ON turno_job
             WHEN new.state = 'running' AND old.state <> 'running' BEGIN
                 UPDATE turno_job SET lease_until = claimed_at WHERE id = new.id;
             END"
            .into()
        },
        seen_by: &["expired_early"],
    },
    Mutation {
        name: "an_expiry_that_charges_nothing_is_caught",
        engine: Engine::Sqlite,
        sql: || {
            "CREATE TRIGGER mutation AFTER INSERT ON turno_attempt WHEN new.verb = 'expire' BEGIN
                 UPDATE turno_attempt SET charged = 0 WHERE job_id = new.job_id AND attempt = new.attempt;
             END"
            .into()
        },
        seen_by: &["charge", "budget"],
    },
];

/// The shipped text with one condition taken out; that it was there is part of the test.
fn without(text: &str, condition: &str, instead: &str) -> String {
    assert_eq!(text.matches(condition).count(), 1, "the shipped routine has {condition:?} once");
    text.replace(condition, instead)
}

fn options(url: &str, seed: u64) -> Options {
    let program = std::env::current_exe().expect("this program has a path");
    let mut options = Options::new(program, seed);
    options.url = Some(url.to_owned());
    options.workers = 4;
    options
}

fn torture(database: &Database, options: Options) -> Result<Report, Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let report = runtime.block_on(turno_torture::run(options, |_| {}));
    runtime.shutdown_timeout(Duration::from_secs(1));
    database.remove();
    report.map_err(|error| Failed::from(format!("{error:?}")))
}

fn clean(engine: Engine, seconds: u64, seed: u64) -> Result<(), Failed> {
    let database = Database::new(engine, None);
    let mut options = options(&database.url, seed);
    options.seconds = seconds;
    let report = torture(&database, options)?;
    println!("{}", report.text());
    if !report.is_clean() {
        return Err(report.text().into());
    }
    // A run in which nothing happened would be clean as well.
    let injected: u64 = report.faults.iter().map(|line| line.injected).sum();
    let enough = injected >= 20 && report.succeeded >= 50 && report.expired > 0 && report.forged_refused > 0;
    if enough { Ok(()) } else { Err(format!("too little happened:\n{}", report.text()).into()) }
}

fn caught(mutation: &Mutation) -> Result<(), Failed> {
    let database = Database::new(mutation.engine, Some((mutation.sql)()));
    let mut options = options(&database.url, 5);
    options.seconds = CAUGHT_WITHIN.as_secs();
    options.stop_early = true;
    options.lease = Duration::from_secs(1);
    options.faults = vec![Fault::Kill, Fault::Pause];
    let began = Instant::now();
    let report = torture(&database, options)?;
    let seen = report.violations.iter().any(|violation| mutation.seen_by.contains(&violation.check));
    if seen && began.elapsed() < CAUGHT_WITHIN {
        return Ok(());
    }
    Err(format!("not caught within {CAUGHT_WITHIN:?} by {:?}:\n{}", mutation.seen_by, report.text()).into())
}
