//! The same binary on PostgreSQL, in a database of its own per test. `TURNO_TEST_POSTGRES_URL` names a server where
//! databases and roles may be made; without it every test here is reported as ignored.

mod common;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};

use common::{Answer, bare, finish};
use libtest_mimic::{Arguments, Trial};

/// A test of a server.
type Test = fn(&str);

fn main() -> ExitCode {
    let url = std::env::var("TURNO_TEST_POSTGRES_URL").ok().filter(|url| !url.is_empty());
    let tests: [(&str, Test); 5] = [
        ("a_missing_schema_is_a_clear_error", a_missing_schema_is_a_clear_error),
        ("run_works_lines_and_goes_on", run_works_lines_and_goes_on),
        ("every_command_answers", every_command_answers),
        ("a_role_without_the_right_is_its_own_status", a_role_without_the_right_is_its_own_status),
        ("a_benchmark_answers_and_leaves_nothing", a_benchmark_answers_and_leaves_nothing),
    ];
    let trial = |(name, test): (&str, Test)| {
        let server = url.clone();
        let run = move || {
            test(&server.unwrap_or_default());
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(url.is_none())
    };
    let arguments = Arguments::from_args();
    libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect()).exit_code()
}

/// An unused name, for a database or a login.
fn new_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let nanos = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    format!("turno_cli_{}_{}_{nanos}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

fn execute(url: &str, statement: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(statement).await.unwrap();
    });
}

/// The URL with another database, and another login if one is given.
fn with(url: &str, database: &str, login: Option<&str>) -> String {
    let (scheme, rest) = url.split_once("://").unwrap();
    let authority = rest.split(['/', '?']).next().unwrap();
    let authority = match login {
        Some(login) => format!("{login}@{}", authority.rsplit('@').next().unwrap()),
        None => authority.to_owned(),
    };
    format!("{scheme}://{authority}/{database}")
}

/// A database that is dropped at the end.
struct Database {
    server: String,
    name: String,
    url: String,
}

impl Database {
    fn new(server: &str) -> Self {
        let name = new_name();
        execute(server, &format!("CREATE DATABASE {name}"));
        Database { server: server.to_owned(), url: with(server, &name, None), name }
    }

    fn with_schema(server: &str) -> Self {
        let database = Database::new(server);
        assert_eq!(database.call(&["migrate"]).status, Some(0));
        database
    }

    fn call(&self, args: &[&str]) -> Answer {
        call(&self.url, args, b"")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        execute(&self.server, &format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

fn call(url: &str, args: &[&str], input: &[u8]) -> Answer {
    let mut command = bare();
    command.env("TURNO_URL", url).args(args);
    finish(command, input)
}

fn a_missing_schema_is_a_clear_error(server: &str) {
    let database = Database::new(server);
    assert_eq!(database.call(&["migrate", "--check"]).status, Some(6));
    for args in [&["stats"][..], &["enqueue", "--queue", "q", "--kind", "k"], &["run", "--", "cat"]] {
        let answer = database.call(args);
        assert_eq!(answer.status, Some(6), "{args:?}: {answer:?}");
        assert!(answer.error_line().contains("turno migrate"), "{answer:?}");
    }
    let nowhere = call(&with(server, "no_such_database", None), &["stats"], b"");
    assert!(nowhere.status == Some(4) && nowhere.error_line().contains("no_such_database"), "{nowhere:?}");
    assert_eq!(database.call(&["migrate"]).status, Some(0));
    assert_eq!(database.call(&["migrate", "--check"]).status, Some(0));
    assert!(database.call(&["migrate", "--print"]).out.contains("CREATE TABLE"));
}

fn run_works_lines_and_goes_on(server: &str) {
    let database = Database::with_schema(server);
    let script = "read l; echo \"$l\"; [ \"$l\" != bad ]";
    let args = ["run", "--json", "-j", "2", "--retry-base", "10ms", "--", "sh", "-c", script];
    let run = |input: &[u8]| {
        let answer = call(&database.url, &args, input);
        let summary: serde_json::Value =
            serde_json::from_str(answer.err.lines().last().unwrap()).expect(&answer.err);
        (answer, summary)
    };
    let (first, summary) = run("a\nbad\né\u{0}\n".as_bytes());
    assert_eq!(first.status, Some(1), "{first:?}");
    assert_eq!(
        (summary["succeeded"].as_u64(), summary["dead"].as_u64(), summary["retries"].as_u64()),
        (Some(2), Some(1), Some(2))
    );
    let (second, summary) = run(b"a\nb\n");
    assert_eq!((second.status, second.out.as_str()), (Some(1), "b\n"), "{second:?}");
    assert_eq!((summary["done_before"].as_u64(), summary["lines"].as_u64()), (Some(1), Some(2)));
    assert_eq!(database.call(&["run", "--forget", "--json"]).documents()[0]["forgotten"], 4);
}

fn every_command_answers(server: &str) {
    let database = Database::with_schema(server);
    let json = |args: &[&str]| {
        let answer = database.call(&[args, &["--json"]].concat());
        assert_eq!(answer.status, Some(0), "{args:?}: {answer:?}");
        answer.documents()
    };
    let enqueue = |more: &[&str]| {
        let documents = json(&[&["enqueue", "--queue", "q", "--kind", "k"], more].concat());
        documents[0]["id"].as_str().unwrap().to_owned()
    };
    let payload = r#"{ "n":1970670598291982290, "z" : "\u0000" }"#;
    let id = enqueue(&["--payload", payload, "--priority", "3"]);
    let shown = database.call(&["job", "show", &id, "--show-payload", "--json"]);
    assert!(shown.out.contains(payload), "{shown:?}");
    assert_eq!(json(&["job", "reprioritize", &id, "-3"])[0]["priority"], -3);
    assert_eq!(json(&["job", "list", "--queue", "q"]).len(), 1);
    assert_eq!(json(&["queue", "pause", "q"])[0]["paused"], true);
    assert_eq!(json(&["queue", "resume", "q"])[0]["paused"], false);
    assert_eq!(json(&["queue", "set", "q", "--max-attempts", "5"])[0]["max_attempts"], 5);
    assert_eq!(json(&["queue", "list"]).len(), 2);
    assert_eq!(json(&["stats"])[0]["ready"]["n"], 1);
    assert!(json(&["audit"]).is_empty());
    assert_eq!(json(&["reap"])[0]["jobs"], serde_json::json!([]));
    assert_eq!(json(&["promote"])[0]["jobs"], 0);
    assert_eq!(json(&["prune"])[0]["jobs"], 0);
    assert!(json(&["refused"]).is_empty());
    assert!(json(&["held", "6f2f0a1e-9d7b-4c0e-8a1f-2b3c4d5e6f70"]).is_empty());
    assert_eq!(json(&["job", "cancel", &id])[0]["answer"], "cancelled");
    assert_eq!(json(&["job", "forget", &id])[0]["answer"], "forgotten");
    assert_eq!(database.call(&["job", "retry", &id]).status, Some(3));
    let add = ["schedule", "add", "s", "--cron", "@hourly", "--queue", "q", "--kind", "k"];
    assert_eq!(json(&add)[0]["answer"], "created");
    assert_eq!(json(&add)[0]["answer"], "unchanged");
    let next = json(&["schedule", "next", "s", "-n", "1"])[0]["at"].clone();
    assert_eq!(json(&["schedule", "list"])[0]["next_at"], next, "the next instant is known at once");
    for (what, answer) in [("pause", "paused"), ("resume", "resumed"), ("remove", "removed")] {
        assert_eq!(json(&["schedule", what, "s"])[0]["answer"], answer);
    }
    assert_eq!(database.call(&["schedule", "remove", "s"]).status, Some(3));
    for document in json(&["sql"]) {
        assert_eq!(json(&["sql", document["operation"].as_str().unwrap()]).len(), 1);
    }
    let refused = database.call(&["enqueue", "--queue", "q", "--kind", "k", "--max-attempts", "0"]);
    assert_eq!(refused.status, Some(2), "{refused:?}");
}

fn a_role_without_the_right_is_its_own_status(server: &str) {
    let database = Database::with_schema(server);
    let enqueue = ["enqueue", "--queue", "q", "--kind", "k"];
    let urgent = ["enqueue", "--queue", "q", "--kind", "k", "--priority", "-1"];
    let list = ["job", "list"];
    let add = ["schedule", "add", "s", "--cron", "@hourly", "--queue", "q", "--kind", "k"];
    let table: [(&str, &[&str], i32); 14] = [
        ("producer", &enqueue, 0),
        ("producer", &urgent, 5),
        ("producer", &list, 5),
        ("scheduler", &urgent, 0),
        ("viewer", &list, 0),
        ("viewer", &enqueue, 5),
        ("viewer", &["queue", "pause", "q"], 5),
        ("operator", &["queue", "pause", "q"], 0),
        ("worker", &add, 5),
        ("operator", &add, 5),
        ("scheduler", &add, 0),
        ("viewer", &["schedule", "list"], 0),
        ("operator", &["schedule", "pause", "s"], 0),
        ("operator", &["schedule", "remove", "s"], 5),
    ];
    for (role, args, status) in table {
        let login = new_name();
        execute(
            &database.url,
            &format!("CREATE ROLE {login} LOGIN PASSWORD 's3cret'; GRANT turno_{role} TO {login}"),
        );
        let url = with(server, &database.name, Some(&format!("{login}:s3cret")));
        let answer = call(&url, args, b"");
        execute(&database.url, &format!("DROP ROLE {login}"));
        assert_eq!(answer.status, Some(status), "{role} {args:?}: {answer:?}");
        if status != 0 {
            assert!(!answer.error_line().contains("s3cret"), "{answer:?}");
        }
    }
}

fn a_benchmark_answers_and_leaves_nothing(server: &str) {
    let database = Database::with_schema(server);
    let sizes = [
        "--jobs=300",
        "--rounds=1",
        "--deep=600",
        "--held=600",
        "--wakes=2",
        "--running=20",
        "--watch=200ms",
    ];
    let answer = database.call(&[&["bench", "--json"], &sizes[..]].concat());
    assert_eq!(answer.status, Some(0), "{answer:?}");
    let figures = answer.documents();
    for workload in ["W1", "W2", "W3", "W4", "W5", "W6", "W7", "mix"] {
        let mut of_it = figures.iter().filter(|figure| figure["workload"] == workload).peekable();
        assert!(of_it.peek().is_some(), "{workload} says nothing: {figures:?}");
        assert!(of_it.all(|figure| figure["value"].as_f64().is_some_and(f64::is_finite)), "{figures:?}");
    }
    assert!(figures.iter().filter(|figure| figure["workload"] == "W4").count() == 3, "{figures:?}");
    let queues = database.call(&["queue", "list", "--json"]);
    assert!(!queues.out.contains("turno-bench"), "{queues:?}");
    // The floor's schema is gone as well: where one stands that the benchmark did not make, it stops.
    execute(&database.url, "CREATE SCHEMA turno_floor");
    let refused = database.call(&["bench", "W1"]);
    assert_eq!(refused.status, Some(3), "{refused:?}");
    execute(&database.url, "DROP SCHEMA turno_floor");
}
