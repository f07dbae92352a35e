//! `turno doctor` from outside, the same on each engine. The servers' URLs come from `TURNO_TEST_POSTGRES_URL` and
//! `TURNO_TEST_MARIADB_URL`; without them those tests are reported as ignored.

mod common;

use std::process::ExitCode;

use common::{Answer, Turno, bare, finish, until};
use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let url = |name: &str| std::env::var(name).ok().filter(|url| !url.is_empty());
    let (postgres, mariadb) = (url("TURNO_TEST_POSTGRES_URL"), url("TURNO_TEST_MARIADB_URL"));
    let (no_postgres, no_mariadb) = (postgres.is_none(), mariadb.is_none());
    let trials = vec![
        Trial::test("sqlite_is_examined", || {
            let turno = Turno::without_schema();
            examine(turno.db().to_str().expect("a path"), &["journal", "file_system", "disk", "log"]);
            Ok(())
        }),
        Trial::test("a_database_that_does_not_answer_is_critical", || {
            a_database_that_does_not_answer_is_critical();
            Ok(())
        }),
        Trial::test("postgres_is_examined", move || {
            examine(&with_schema(&postgres.unwrap_or_default()), &["pooler", "oldest_transaction", "vacuum"]);
            Ok(())
        })
        .with_ignored_flag(no_postgres),
        Trial::test("mariadb_is_examined", move || {
            examine(
                &with_schema(&mariadb.unwrap_or_default()),
                &["definer", "packet", "sql_mode", "history"],
            );
            Ok(())
        })
        .with_ignored_flag(no_mariadb),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The URL with an installation that no other test has.
fn with_schema(url: &str) -> String {
    let nanos = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() % 1_000_000_000_000;
    let join = if url.contains('?') { '&' } else { '?' };
    format!("{url}{join}turno_schema=d{nanos}")
}

fn call(url: &str, args: &[&str]) -> Answer {
    let mut command = bare();
    command.env("TURNO_URL", url).args(args);
    finish(command, b"")
}

/// What others do to the server meanwhile is left out, and how it was set up.
const OTHERS: [&str; 12] = [
    "--ignore",
    "replication_slots",
    "--ignore",
    "connections",
    "--ignore",
    "oldest_transaction",
    "--ignore",
    "prepared_transactions",
    "--ignore",
    "disk",
    "--ignore",
    "durability",
];

/// From nothing to well, to a warning, to something critical.
fn examine(url: &str, own: &[&str]) {
    let doctor = |args: &[&str]| call(url, &[&["doctor", "--look-max", "60s"], &OTHERS[..], args].concat());
    let before = doctor(&[]);
    assert_eq!(before.status, Some(2), "without a schema: {before:?}");
    assert!(before.out.contains("turno migrate"), "{before:?}");
    assert_eq!(call(url, &["migrate"]).status, Some(0));
    let well = doctor(&[]);
    assert_eq!(well.status, Some(0), "{well:?}");
    assert!(well.out.starts_with("turno ok: 0 critical, 0 warning, 0 unknown, "), "{well:?}");
    assert_eq!(call(url, &["enqueue", "--queue", "mail", "--kind", "k"]).status, Some(0));
    assert_eq!(doctor(&[]).status, Some(0), "a job that has just become due waits for nobody");
    let unserved = doctor(&["--json", "--long-wait", "0s"]);
    assert_eq!(unserved.status, Some(2), "{unserved:?}");
    let checks = unserved.documents();
    let first = &checks[0];
    assert_eq!((first["id"].as_str(), first["status"].as_str()), (Some("workers"), Some("critical")));
    for word in ["found", "meaning", "action"] {
        assert!(!first[word].as_str().unwrap().is_empty(), "{first}");
    }
    assert!(first["found"].as_str().unwrap().contains("mail"), "{first}");
    assert_eq!(doctor(&["--long-wait", "0s", "--ignore", "workers"]).status, Some(0));
    assert_eq!(call(url, &["queue", "pause", "mail"]).status, Some(0));
    let paused = doctor(&["--long-wait", "0s", "--long-pause", "0s"]);
    assert_eq!(paused.status, Some(1), "{paused:?}");
    assert!(
        paused.out.contains("which means: ") && paused.out.contains("to do: turno queue resume"),
        "{paused:?}"
    );
    let all = call(url, &["doctor", "--json"]).documents();
    for id in own.iter().chain(&["server", "schema", "drift", "indexes", "audit", "kinds", "schedules"]) {
        assert!(all.iter().any(|check| check["id"] == *id), "{id} is missing: {all:?}");
    }
    let add = ["schedule", "add", "tick", "--cron", "* * * * * *", "--queue", "mail", "--kind", "k"];
    assert_eq!(call(url, &add).status, Some(0));
    until("the schedule is due and nobody fires it", || {
        let checks = doctor(&["--json", "--long-wait", "0s"]).documents();
        let late = checks.iter().find(|check| check["id"] == "schedules").unwrap();
        late["status"] == "warning" && late["found"].as_str().unwrap().contains("tick (for ")
    });
    assert!(call(url, &["schedule", "list"]).out.contains("due since "), "the list says so, too");
    let mistyped = doctor(&["--ignore", "worker"]);
    assert!(mistyped.status == Some(2) && mistyped.err.contains("workers"), "{mistyped:?}");
}

fn a_database_that_does_not_answer_is_critical() {
    for url in ["postgres://nobody:s3cret@127.0.0.1:1/x", "mysql://nobody:s3cret@127.0.0.1:1/"] {
        let answer = call(url, &["doctor", "--json"]);
        assert_eq!(answer.status, Some(2), "{answer:?}");
        let check = &answer.documents()[0];
        assert_eq!((check["id"].as_str(), check["status"].as_str()), (Some("connect"), Some("critical")));
        assert!(!answer.out.contains("s3cret"), "{answer:?}");
    }
    let nonsense = call("redis://x", &["doctor"]);
    assert_eq!(nonsense.status, Some(2), "{nonsense:?}");
    assert!(nonsense.err.contains("redis"), "{nonsense:?}");
}
