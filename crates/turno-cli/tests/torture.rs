//! `turno torture` as users call it, for a few seconds on each engine: what it prints, and its exit status. Whether a
//! fault is found at all is `turno-torture`'s to test. A server that is not named is reported as ignored.

mod common;

use std::collections::BTreeSet;
use std::process::ExitCode;

use common::{Answer, Turno, bare, finish};
use libtest_mimic::{Arguments, Trial};
use mysql_async::prelude::Queryable;
use serde_json::Value;

/// The environment's name for a server's URL; `None` for SQLite.
type Server = Option<&'static str>;
const POSTGRES: Server = Some("TURNO_TEST_POSTGRES_URL");
const MARIADB: Server = Some("TURNO_TEST_MARIADB_URL");

const SHORT: [&str; 7] = ["torture", "--workers", "3", "--lease", "800ms", "--seconds", "4"];

/// What a run says that finds an expired lease without its charge.
const NOT_CHARGED: &[&str] = &["VIOLATION charge: job ", "ended by expire: the lease expired", "fault: kill"];

fn main() -> ExitCode {
    let tests: [(&str, Server, fn()); 7] = [
        ("sqlite::a_clean_run_says_what_was_done", None, a_clean_run_says_what_was_done),
        ("sqlite::a_report_is_json_and_a_page", None, a_report_is_json_and_a_page),
        ("sqlite::a_violation_is_told_whole", None, a_violation_is_told_whole),
        ("sqlite::what_cannot_begin_is_a_clear_error", None, what_cannot_begin_is_a_clear_error),
        ("postgres::a_clean_run_has_every_kind_of_fault", POSTGRES, postgres_is_clean),
        ("postgres::a_changed_routine_is_told_whole", POSTGRES, a_changed_routine_is_told_whole),
        ("mariadb::a_clean_run_has_every_kind_of_fault", MARIADB, mariadb_is_clean),
    ];
    let mut arguments = Arguments::from_args();
    // They wait for time and not for processors.
    arguments.test_threads.get_or_insert(4);
    let trial = |(name, server, test): (&str, Server, fn())| {
        let missing = server.is_some_and(|name| std::env::var(name).unwrap_or_default().is_empty());
        let run = move || {
            test();
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(missing)
    };
    libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect()).exit_code()
}

/// The kinds of faults that the lines of a text report name as injected, each with a place.
fn kinds(report: &str) -> BTreeSet<&str> {
    let lines = report.lines().skip_while(|line| *line != "faults, by kind and place:").skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    let injected = lines.filter(|line| !line.contains("not run:") && line.split_whitespace().count() >= 3);
    injected.filter_map(|line| line.split_whitespace().next()).collect()
}

/// The first line has the seed before anything can have gone wrong.
fn assert_seed_first(answer: &Answer, seed: &str) {
    assert_eq!(answer.err.lines().next(), Some(format!("seed {seed}").as_str()), "{answer:?}");
}

fn a_clean_run_says_what_was_done() {
    let answer = Turno::without_schema().call(&[&SHORT[..], &["--seed", "41"]].concat());
    assert_eq!(answer.status, Some(0), "{answer:?}");
    assert_seed_first(&answer, "41");
    assert_eq!(kinds(&answer.out), BTreeSet::from(["hold", "kill", "pause", "slow"]), "{}", answer.out);
    for part in
        ["kill       during the handler", "restart    not run: SQLite has no server", "jobs: ", "memory: "]
    {
        assert!(answer.out.contains(part), "{part}: {}", answer.out);
    }
    assert!(answer.out.lines().last().unwrap().starts_with("clean: every check held"), "{}", answer.out);
}

fn a_report_is_json_and_a_page() {
    let turno = Turno::new();
    let answer = turno.call(
        &[&SHORT[..], &["--seed", "42", "--faults", "kill,cut", "--report", "r.html", "--json"]].concat(),
    );
    assert_eq!(answer.status, Some(0), "{answer:?}");
    let documents = answer.documents();
    let [report] = &documents[..] else { panic!("one document: {answer:?}") };
    assert_eq!(report["seed"], 42);
    assert_eq!(report["violations"].as_array().map(Vec::len), Some(0));
    assert!(report["enqueued"].as_u64().unwrap() > 0, "{report}");
    let faults = report["faults"].as_array().unwrap();
    assert!(faults.iter().any(|line| line["injected"].as_u64().unwrap() > 0), "{report}");
    for line in faults {
        assert!(line["fault"] == "kill" && line["place"].is_string(), "{line}");
    }
    assert_eq!(report["not_run"][0]["fault"], "cut");
    let page = std::fs::read_to_string(turno.path("r.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("clean"), "{page}");
    // A clean run removes its jobs.
    let left: u64 = turno.json(&["stats"]).iter().filter_map(|line| line["ready"]["n"].as_u64()).sum();
    assert_eq!(left, 0);
}

fn a_violation_is_told_whole() {
    let turno = Turno::new();
    turno.sql(
        "CREATE TRIGGER mutation AFTER INSERT ON turno_attempt WHEN new.verb = 'expire' BEGIN
             UPDATE turno_attempt SET charged = 0 WHERE job_id = new.job_id AND attempt = new.attempt;
         END",
    );
    let answer = turno.call(&[&SHORT[..], &["--seed", "43", "--faults", "kill"]].concat());
    assert_told_whole(&answer, "43", NOT_CHARGED);
    assert!(answer.out.contains("--seconds 4 --workers 3 --lease 800ms --faults kill"), "{}", answer.out);
}

/// Exit status 1, the seed, a job's story in order, and the command that repeats the run.
fn assert_told_whole(answer: &Answer, seed: &str, parts: &[&str]) {
    assert_eq!(answer.status, Some(1), "{answer:?}");
    assert_seed_first(answer, seed);
    let story = ["    ", "enqueued into torture-", "attempt 1 claimed by w", "attempt 1 started"];
    for part in story.iter().chain(parts) {
        assert!(answer.out.contains(part), "{part}: {}", answer.out);
    }
    let places: Vec<usize> = story[1..].iter().map(|part| answer.out.find(part).unwrap()).collect();
    assert!(places.is_sorted(), "the story is in order: {}", answer.out);
    assert!(answer.out.contains(&format!("violations with seed {seed}")), "{}", answer.out);
    let last = answer.out.lines().last().unwrap();
    assert!(
        last.starts_with("repeat it: turno torture --db ") && last.contains(&format!("--seed {seed}")),
        "{last}"
    );
}

fn what_cannot_begin_is_a_clear_error() {
    let turno = Turno::without_schema();
    for (arguments, status, word) in [
        (&["--faults", "flood"][..], 2, "flood"),
        (&["--workers", "0"], 2, "workers"),
        (&["--own-server=oracle"], 2, "oracle"),
        (&["--db", "oracle://h/d"], 2, "torture knows SQLite"),
    ] {
        let answer = turno.call(&[&["torture", "--seconds", "1"], arguments].concat());
        assert_eq!(answer.status, Some(status), "{arguments:?}: {answer:?}");
        assert!(answer.err.contains(word), "{arguments:?}: {answer:?}");
    }
}

/// What is removed from a server when a test is over, also when it failed.
struct Installation {
    url: String,
    cleanup: Vec<String>,
    server: String,
}

impl Drop for Installation {
    fn drop(&mut self) {
        self.cleanup.iter().for_each(|sql| execute(&self.server, sql));
    }
}

/// Starts with a letter and has at most 20 characters, as MySQL's names of roles need it.
fn new_name() -> String {
    let nanos = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    format!("tc_{:x}", nanos ^ (u64::from(std::process::id()) << 44))
}

fn server(name: Server) -> String {
    std::env::var(name.unwrap()).unwrap()
}

fn postgres() -> Installation {
    let (server, name) = (server(POSTGRES), new_name());
    execute(&server, &format!("CREATE DATABASE {name}"));
    let start = server.find("://").unwrap() + 3;
    let end = server[start..].find(['/', '?']).map_or(server.len(), |end| start + end);
    let query = server.find('?').map_or("", |query| &server[query..]);
    let url = format!("{}/{name}{query}", &server[..end]);
    Installation { url, cleanup: vec![format!("DROP DATABASE {name} WITH (FORCE)")], server }
}

fn mariadb() -> Installation {
    let (server, name) = (server(MARIADB), new_name());
    let url = format!("{server}{}turno_schema={name}", if server.contains('?') { '&' } else { '?' });
    let roles = ["producer", "worker", "scheduler", "operator", "viewer", "service", "admin"];
    let mut cleanup = vec![format!("DROP DATABASE IF EXISTS {name}")];
    cleanup.extend(roles.map(|role| format!("DROP ROLE IF EXISTS {name}_{role}")));
    Installation { url, cleanup, server }
}

fn execute(url: &str, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        if url.starts_with("postgres") {
            let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            return client.batch_execute(sql).await.unwrap();
        }
        let options = mysql_async::Opts::from_url(&url.replacen("mariadb://", "mysql://", 1)).unwrap();
        let options = mysql_async::OptsBuilder::from_opts(options).prefer_socket(false);
        mysql_async::Conn::new(options).await.unwrap().query_drop(sql).await.unwrap();
    });
}

fn torture(url: &str, arguments: &[&str]) -> Answer {
    let mut command = bare();
    command.args(arguments).args(["--db", url]);
    finish(command, b"")
}

fn postgres_is_clean() {
    assert_clean_with_every_fault(&postgres().url, "postgres");
}

fn mariadb_is_clean() {
    assert_clean_with_every_fault(&mariadb().url, "mariadb");
}

/// A short run deals each kind of fault once or twice; that it struck is a matter of luck, that it is named is not.
fn assert_clean_with_every_fault(url: &str, engine: &str) {
    let answer = torture(url, &[&SHORT[..5], &["--seconds", "7", "--seed", "44", "--json"]].concat());
    assert_seed_first(&answer, "44");
    let report: Value = serde_json::from_str(answer.out.trim()).unwrap_or_else(|_| panic!("{answer:?}"));
    assert_eq!(report["violations"], serde_json::json!([]));
    assert_eq!((answer.status, report["engine"].as_str()), (Some(0), Some(engine)), "{answer:?}");
    let named: BTreeSet<&str> = report["faults"]
        .as_array()
        .unwrap()
        .iter()
        .chain(report["not_run"].as_array().unwrap())
        .map(|line| line["fault"].as_str().unwrap())
        .collect();
    // A worker with a wrong clock need not have settled anything in so short a time.
    for fault in ["cut", "drop-reply", "hold", "kill", "pause", "restart", "slow", "terminate"] {
        assert!(named.contains(fault), "{fault}: {report}");
    }
}

fn a_changed_routine_is_told_whole() {
    let installation = postgres();
    let mut command = bare();
    command.args(["migrate", "--db", &installation.url]);
    assert_eq!(finish(command, b"").status, Some(0));
    let shipped = include_str!("../../turno-postgres/sql/internal/end_attempt.sql");
    let charged = "IN ('fail', 'expire')";
    assert_eq!(shipped.matches(charged).count(), 1, "the shipped routine has {charged:?} once");
    execute(&installation.url, &shipped.replace(charged, "IN ('fail')"));
    let answer = torture(&installation.url, &[&SHORT[..], &["--seed", "45", "--faults", "kill"]].concat());
    assert_told_whole(&answer, "45", NOT_CHARGED);
}
