//! Torture of the shipped schemas, which must be clean, and of schemas from which one condition was taken out, which must
//! be caught. The program starts itself again as a worker, so it has a main of its own.

mod rig;

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use turno::Engine;
use turno_torture::{Fault, Options, Report, WORKER_COMMAND};

use crate::rig::{Database, Program};

/// Within this time each mutation must be caught.
const CAUGHT_WITHIN: Duration = Duration::from_secs(60);

/// A change of the shipped SQL, and the checks of which at least one must see it.
struct Mutation {
    name: &'static str,
    engine: Engine,
    change: fn() -> Change,
    seen_by: &'static [&'static str],
}

/// Where the change is made.
enum Change {
    /// In the database, by this SQL.
    Schema(String),
    /// In a copy of this program, which has the statements of SQLite compiled in: a text, and what stands instead.
    Program(String, String),
}

/// Under this hidden command a copy of the program is a supervisor: the database's URL follows.
const SUPERVISOR_COMMAND: &str = "__torture-supervisor";

/// Runs whose every check has to hold: engine, seconds, seed.
const CLEAN: [(Engine, u64, u64); 4] = [
    (Engine::Sqlite, 10, 11),
    (Engine::Postgres, 14, 12),
    (Engine::Mariadb, 10, 13),
    (Engine::Mysql, 10, 14),
];

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(WORKER_COMMAND) => return turno_torture::worker_main(),
        Some(SUPERVISOR_COMMAND) => return supervisor_main(),
        _ => {}
    }
    let mut arguments = Arguments::from_args();
    // They wait for time and not for processors.
    arguments.test_threads.get_or_insert(4);
    let missing = |engine| rig::variable(engine).filter(|name| std::env::var_os(name).is_none());
    for (engine, ..) in CLEAN {
        if let Some(name) = missing(engine) {
            println!("{engine}: not run, since {name} is not set (scripts/test sets it)");
        }
    }
    let clean = CLEAN.map(|(engine, seconds, seed)| {
        let name = format!("{}::every_check_holds", engine.as_str());
        Trial::test(name, move || clean(engine, seconds, seed)).with_ignored_flag(missing(engine).is_some())
    });
    let mutations = MUTATIONS.iter().map(|mutation| {
        let name = format!("{}::{}", mutation.engine.as_str(), mutation.name);
        Trial::test(name, move || caught(mutation)).with_ignored_flag(missing(mutation.engine).is_some())
    });
    libtest_mimic::run(&arguments, clean.into_iter().chain(mutations).collect()).exit_code()
}

/// What may see first that a proof was taken that is none.
const FORGED: &[&str] = &["forged_proof", "stale_result", "answer", "attempts_gap"];

const MUTATIONS: &[Mutation] = &[
    Mutation {
        name: "a_complete_without_the_token_is_caught",
        engine: Engine::Postgres,
        change: || schema(rig::COMPLETE, " AND j.token = p.token", ""),
        seen_by: FORGED,
    },
    Mutation {
        name: "a_complete_without_the_attempt_is_caught",
        engine: Engine::Postgres,
        change: || schema(rig::COMPLETE, " AND j.attempt = p.attempt", ""),
        seen_by: FORGED,
    },
    Mutation {
        name: "a_complete_by_the_id_alone_is_caught",
        engine: Engine::Postgres,
        change: || schema(rig::COMPLETE, " AND j.attempt = p.attempt AND j.token = p.token", ""),
        seen_by: FORGED,
    },
    Mutation {
        name: "an_unconditional_reaper_is_caught",
        engine: Engine::Postgres,
        change: || schema(rig::REAP, "j.lease_until < v_now", "j.lease_until IS NOT NULL"),
        seen_by: &["expired_early"],
    },
    Mutation {
        name: "an_expiry_that_charges_nothing_is_caught",
        engine: Engine::Postgres,
        change: || schema(rig::END_ATTEMPT, "IN ('fail', 'expire')", "IN ('fail')"),
        seen_by: &["charge"],
    },
    Mutation {
        name: "a_complete_without_the_token_is_caught",
        engine: Engine::Mariadb,
        // What it records and what it removes are two statements with the same condition.
        change: || {
            let condition = " AND j.token = UNHEX(REPLACE(r.token, '-', ''))";
            Change::Schema(rig::without(rig::MYSQL_COMPLETE, condition, "", 2))
        },
        seen_by: FORGED,
    },
    Mutation {
        name: "an_expiry_that_charges_nothing_is_caught",
        engine: Engine::Mariadb,
        change: || schema(rig::MYSQL_END_ATTEMPT, "IN ('fail', 'expire')", "IN ('fail')"),
        seen_by: &["charge"],
    },
    Mutation {
        name: "a_complete_without_the_token_is_caught",
        engine: Engine::Sqlite,
        change: || compiled_in(rig::SQLITE_COMPLETE, " AND token = :token;", " AND :token NOTNULL;"),
        seen_by: FORGED,
    },
    Mutation {
        name: "a_complete_without_the_attempt_is_caught",
        engine: Engine::Sqlite,
        change: || compiled_in(rig::SQLITE_COMPLETE, " attempt = :attempt ", " :attempt NOTNULL   "),
        seen_by: FORGED,
    },
    // Two triggers bring about the rows that a changed statement would.
    Mutation {
        name: "a_reaper_of_leases_that_go_on_is_caught",
        engine: Engine::Sqlite,
        change: || {
            let sql = "CREATE TRIGGER mutation AFTER UPDATE OF state ON turno_job
             WHEN new.state = 'running' AND old.state <> 'running' BEGIN
                 UPDATE turno_job SET lease_until = claimed_at WHERE id = new.id;
             END";
            Change::Schema(sql.into())
        },
        seen_by: &["expired_early"],
    },
    Mutation {
        name: "an_expiry_that_charges_nothing_is_caught",
        engine: Engine::Sqlite,
        change: || {
            let sql = "CREATE TRIGGER mutation AFTER INSERT ON turno_attempt WHEN new.verb = 'expire' BEGIN
                 UPDATE turno_attempt SET charged = 0 WHERE job_id = new.job_id AND attempt = new.attempt;
             END";
            Change::Schema(sql.into())
        },
        seen_by: &["charge", "budget"],
    },
];

fn schema(text: &str, condition: &str, instead: &str) -> Change {
    Change::Schema(rig::without(text, condition, instead, 1))
}

/// The whole file stands for the statement, since others contain the same condition.
fn compiled_in(file: &str, condition: &str, instead: &str) -> Change {
    Change::Program(file.to_owned(), rig::without(file, condition, instead, 1))
}

fn options(url: &str, seed: u64) -> Options {
    let program = std::env::current_exe().expect("this program has a path");
    let mut options = Options::new(program, seed);
    options.url = Some(url.to_owned());
    options.workers = 4;
    options
}

/// What a mutation is looked for with.
fn looking_for_a_mutation(url: &str) -> Options {
    let mut options = options(url, 5);
    options.seconds = CAUGHT_WITHIN.as_secs();
    options.stop_early = true;
    options.lease = Duration::from_secs(1);
    options.faults = vec![Fault::Kill, Fault::Pause];
    options
}

/// A copy of this program runs the whole test on itself and prints what it found.
fn supervisor_main() -> ExitCode {
    let url = std::env::args().nth(2).unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let report =
        runtime.expect("a runtime").block_on(turno_torture::run(looking_for_a_mutation(&url), |_| {}));
    let checks: Vec<&str> =
        report.expect("the run begins").violations.iter().map(|violation| violation.check).collect();
    println!("{}", checks.join(" "));
    ExitCode::SUCCESS
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
    let enough = injected >= 15 && report.succeeded >= 30 && report.expired > 0 && report.forged_refused > 0;
    if enough { Ok(()) } else { Err(format!("too little happened:\n{}", report.text()).into()) }
}

fn caught(mutation: &Mutation) -> Result<(), Failed> {
    let began = Instant::now();
    let checks = match (mutation.change)() {
        Change::Schema(sql) => {
            let database = Database::new(mutation.engine, Some(sql));
            let report = torture(&database, looking_for_a_mutation(&database.url))?;
            report.violations.iter().map(|violation| violation.check.to_owned()).collect()
        }
        Change::Program(text, instead) => checks_of(&Program::with(&text, &instead), mutation.engine)?,
    };
    let seen = checks.iter().any(|check| mutation.seen_by.contains(&check.as_str()));
    if seen && began.elapsed() < CAUGHT_WITHIN {
        return Ok(());
    }
    Err(format!("not caught within {CAUGHT_WITHIN:?} by {:?}: {checks:?}", mutation.seen_by).into())
}

/// What the program finds in itself.
fn checks_of(program: &Program, engine: Engine) -> Result<Vec<String>, Failed> {
    let database = Database::new(engine, None);
    let output = Command::new(program.path()).args([SUPERVISOR_COMMAND, &database.url]).output()?;
    database.remove();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect())
}
