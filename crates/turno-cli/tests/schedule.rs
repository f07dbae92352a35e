//! `turno schedule` from end to end on SQLite: the commands, and a worker that fires.

mod common;

use common::{Turno, bare, finish, until};

const ADD: [&str; 9] =
    ["schedule", "add", "nightly", "--cron", "30 2 * * *", "--queue", "reports", "--kind", "nightly"];

/// Rules K3, K8.
#[test]
fn a_schedule_is_added_once_listed_paused_resumed_and_removed() {
    let turno = Turno::new();
    let zone = ["--zone", "Europe/Berlin", "--missed", "all:7", "--payload", "{\"day\": \"{instant}\"}"];
    let add = [&ADD[..], &zone].concat();
    let added = &turno.json(&add)[0];
    assert_eq!(added["answer"], "created");
    let next = added["schedule"]["next_at"].as_str().expect("the next instant is known at once").to_owned();
    assert!(next.ends_with(":30:00Z"), "{next}");
    assert_eq!(turno.json(&add)[0]["answer"], "unchanged");
    let again = turno.call(&add);
    assert!(again.out.starts_with("schedule nightly is unchanged; next at "), "{again:?}");
    assert!(again.out.contains("T02:30:00+0") && again.out.contains("[Europe/Berlin]"), "{again:?}");
    let hidden = &turno.json(&["schedule", "list"])[0];
    assert!(!hidden.to_string().contains("{instant}"), "{hidden}");
    let listed = &turno.json(&["schedule", "list", "--show-payload"])[0];
    for (field, value) in [("name", "nightly"), ("missed", "all:7"), ("queue", "reports"), ("next_at", &next)]
    {
        assert_eq!(listed[field], value, "{listed}");
    }
    assert_eq!(listed["payload"]["day"], "{instant}");
    assert_eq!(turno.json(&["schedule", "pause", "nightly"])[0]["answer"], "paused");
    assert!(turno.call(&["schedule", "list"]).out.contains(" paused "));
    assert_eq!(turno.json(&["schedule", "resume", "nightly"])[0]["answer"], "resumed");
    assert_eq!(turno.json(&["schedule", "list"])[0]["next_at"], next.as_str());
    assert_eq!(turno.call(&["schedule", "remove", "nightly"]).out, "schedule nightly is removed\n");
    for what in ["pause", "resume", "remove", "next"] {
        let answer = turno.call(&["schedule", what, "nightly"]);
        assert_eq!(answer.status, Some(3), "{answer:?}");
        assert!(answer.err.contains("there is no schedule"), "{answer:?}");
    }
}

/// Rule K7.
#[test]
fn the_next_instants_need_no_database() {
    let next = |args: &[&str]| {
        let mut command = bare();
        command.env_remove("TURNO_URL").args(["schedule", "next"]).args(args);
        finish(command, b"")
    };
    let over_the_gap =
        ["--cron", "30 2 * * *", "--zone", "Europe/Berlin", "--after", "2025-03-29T12:00:00Z", "-n", "2"];
    assert_eq!(
        next(&over_the_gap).out,
        "2025-03-30T01:00:00Z  2025-03-30T03:00:00+02:00[Europe/Berlin]\n\
         2025-03-31T00:30:00Z  2025-03-31T02:30:00+02:00[Europe/Berlin]\n"
    );
    for (args, word) in [
        (&["--cron", "every day"][..], "every day"),
        (&["--cron", "* * * * *", "--zone", "Europe/Atlantis"], "Europe/Atlantis"),
        (&["--zone", "UTC"], "--cron"),
        (&["--cron", "* * * * *", "-n", "0"], "0"),
        (&["--cron", "0 0 31 2 *"], "never comes after 20"),
    ] {
        let answer = next(args);
        assert_eq!(answer.status, Some(2), "{answer:?}");
        assert!(answer.err.contains(word), "{answer:?}");
    }
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_written() {
    let turno = Turno::new();
    for (more, word) in [
        (["--cron", "0 0 30 2 *"], "never comes"),
        (["--zone", "Mars/Olympus"], "no time zone"),
        (["--missed", "all:0"], "all:N"),
        (["--missed", "some"], "skip, latest"),
        (["--payload", "{"], "payload"),
        (["--priority", "1001"], "priority"),
    ] {
        let base = if more[0] == "--cron" { [&ADD[..3], &ADD[5..]].concat() } else { ADD.to_vec() };
        let answer = turno.call(&[&base[..], &more].concat());
        assert_eq!(answer.status, Some(2), "{more:?}: {answer:?}");
        assert!(answer.err.contains(word), "{more:?}: {answer:?}");
    }
    assert_eq!(turno.json(&["schedule", "list"]), Vec::<serde_json::Value>::new());
}

/// Rules K1, K2, K6: two workers of another queue fire what is due, each instant once.
#[test]
fn workers_fire_a_schedule() {
    let turno = Turno::new();
    let every_second = ["--cron", "* * * * * *", "--queue", "q", "--kind", "k", "--payload", "\"{instant}\""];
    turno.json(&[&["schedule", "add", "tick"][..], &every_second].concat());
    let work = ["work", "--queue", "another", "--kind", "none=true"];
    let workers = [turno.start(&work), turno.start(&work)];
    until("three instants have their jobs", || turno.json(&["job", "list", "--state", "ready"]).len() >= 3);
    drop(workers);
    let jobs = turno.json(&["job", "list", "--state", "ready", "--show-payload"]);
    let instants: std::collections::BTreeSet<&str> =
        jobs.iter().map(|job| job["payload"].as_str().expect("an instant")).collect();
    assert_eq!(instants.len(), jobs.len(), "an instant has two jobs: {jobs:?}");
    let listed = &turno.json(&["schedule", "list"])[0];
    assert_eq!(listed["last_job"], jobs[0]["id"], "{listed}");
}
