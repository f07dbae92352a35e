//! The examples, run as programs: each works on a database of its own and says what happened.

use std::path::PathBuf;
use std::process::Command;

/// Where cargo puts the example beside this test; it is built if only this test was asked for.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this program");
    let folder = test.ancestors().nth(2).expect("the folder of the build");
    let path = folder.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if !path.exists() {
        let cargo = std::env::var_os("CARGO").expect("tests are run by cargo");
        let status = Command::new(cargo)
            .args(["build", "-p", "turno", "--example", name])
            .status()
            .expect("cargo runs");
        assert!(status.success(), "the example {name} is built");
    }
    path
}

/// Runs it and answers what it printed.
fn run(name: &str) -> String {
    let output = Command::new(example(name)).output().expect("the example runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn enqueue_finds_what_is_there_by_its_keys() {
    let text = run("enqueue");
    assert!(
        text.contains("asking again found it: true") && text.contains("1000 more in one transaction"),
        "{text}"
    );
}

#[test]
fn worker_ends_every_job() {
    assert_eq!(run("worker"), "3 succeeded, 1 dead\n");
}

#[test]
fn outbox_enqueues_and_confirms_in_the_applications_transactions() {
    assert_eq!(run("outbox"), "2 orders, 2 confirmed\n");
}

#[test]
fn idempotent_effect_happens_once_in_two_attempts() {
    assert_eq!(run("idempotent_effect"), "2 attempts, 1 payment\n");
}
