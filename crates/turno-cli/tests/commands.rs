//! Every command on SQLite: its JSON, its text, its exit status.

mod common;

use common::{Turno, bare, finish};

#[track_caller]
fn keys(value: &serde_json::Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn enqueue_answers_an_id_and_a_key_answers_it_again() {
    let turno = Turno::new();
    let args = ["enqueue", "--queue", "q", "--kind", "k", "--payload", "{}", "--idempotency-key", "x"];
    let first = turno.json(&args);
    assert_eq!(first, [serde_json::json!({ "id": "1", "created": true })]);
    assert_eq!(turno.json(&args), [serde_json::json!({ "id": "1", "created": false })]);
    assert_eq!(turno.call(&args).out, "job 1 was there already\n");
}

#[test]
fn enqueue_takes_every_option() {
    let turno = Turno::new();
    let payload = r#"{ "n":1970670598291982290, "z" : "\u0000\ud83d\ude00" }"#;
    let options = ["--priority", "-7", "--max-attempts", "4", "--max-run", "90s", "--unique-key", "u"];
    let id = turno.enqueue("q", &[&options[..], &["--payload", payload, "--delay", "1h"]].concat());
    let job = &turno.json(&["job", "show", &id, "--show-payload"])[0];
    for (name, value) in [("priority", -7), ("max_attempts", 4), ("max_run_ms", 90_000), ("failures", 0)] {
        assert_eq!(job[name], value, "{name}: {job}");
    }
    assert_eq!((job["state"].as_str(), job["unique_key"].as_str()), (Some("scheduled"), Some("u")));
    let answer = turno.call(&["job", "show", &id, "--show-payload", "--json"]);
    assert!(answer.out.contains(payload), "the same bytes: {}", answer.out);
    let later = turno.enqueue("q", &["--run-at", "2030-01-31T08:00:00+02:00"]);
    assert_eq!(turno.json(&["job", "show", &later])[0]["run_at"], "2030-01-31T06:00:00Z");
}

#[test]
fn ndjson_is_enqueued_in_batches_and_answered_in_order() {
    let turno = Turno::new();
    let rows: String =
        (0..25).map(|n| format!("{{\"payload\":{n},\"idempotency_key\":\"{}\"}}\n", n % 20)).collect();
    let args = ["enqueue", "--queue", "q", "--kind", "k", "--ndjson", "-", "--batch", "10"];
    let answer = turno.feed(&[&args[..], &["--json"]].concat(), rows.as_bytes());
    let documents = answer.documents();
    assert_eq!((answer.status, documents.len()), (Some(0), 25));
    for (n, document) in documents.iter().enumerate() {
        assert_eq!(
            (document["line"].as_u64(), document["created"].as_bool()),
            (Some(n as u64 + 1), Some(n < 20))
        );
        assert_eq!(document["id"], documents[n % 20]["id"]);
    }
    std::fs::write(turno.path("rows"), &rows).unwrap();
    let again = turno.call(&["enqueue", "--queue", "q", "--kind", "k", "--ndjson", "rows"]);
    assert_eq!(again.out, "enqueued 0 jobs; 25 were there already\n");
}

#[test]
fn jobs_are_listed_newest_first_in_pages_with_payloads_left_out() {
    let turno = Turno::new();
    for n in 0..5 {
        turno.enqueue(if n == 2 { "other" } else { "q" }, &["--payload", &format!("{{\"secret\":{n}}}")]);
    }
    let ids = |args: &[&str]| {
        let jobs = turno.json(&[&["job", "list"], args].concat());
        jobs.iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&[]), ["5", "4", "3", "2", "1"]);
    assert_eq!(ids(&["--queue", "q", "--limit", "2"]), ["5", "4"]);
    assert_eq!(ids(&["--queue", "q", "--limit", "2", "--before", "4"]), ["2", "1"]);
    assert_eq!(ids(&["--state", "dead", "--state", "scheduled"]), [""; 0]);
    assert_eq!(ids(&["--kind", "nobody"]), [""; 0]);
    turno.enqueue("q", &["--unique-key", "order 7", "--idempotency-key", "request 9"]);
    assert_eq!(
        (ids(&["--key", "order 7"]), ids(&["--key", "request 9", "--queue", "q"])),
        (vec!["6".into()], vec!["6".into()])
    );
    assert_eq!((ids(&["--key", "order 7", "--queue", "other"]), ids(&["--key", "order"])), (vec![], vec![]));
    assert_eq!(turno.call(&["job", "list", "--key", "k", "--state", "dead"]).status, Some(2));
    assert_eq!(turno.call(&["job", "forget", "6"]).status, Some(3), "it has not ended");
    let listed = turno.call(&["job", "list", "--json"]);
    assert!(!listed.out.contains("secret"), "{}", listed.out);
    let shown = turno.json(&["job", "list", "--limit", "1", "--before", "6", "--show-payload"]);
    assert_eq!(shown[0]["payload"], serde_json::json!({ "secret": 4 }));
    assert!(!turno.call(&["job", "list"]).out.contains("secret"));
    assert!(!turno.call(&["job", "show", "1"]).out.contains("secret"));
    assert!(turno.call(&["job", "show", "1", "--show-payload"]).out.contains("secret"));
}

#[test]
fn the_fields_of_a_job_are_stable() {
    let turno = Turno::new();
    let id = turno.enqueue("q", &[]);
    let list = turno.json(&["job", "list"]);
    let expected = [
        "attempt",
        "cancel_requested_at",
        "claimed_at",
        "created_at",
        "error",
        "failures",
        "finished_at",
        "id",
        "kind",
        "lease_until",
        "max_attempts",
        "max_run_ms",
        "operation_id",
        "payload",
        "priority",
        "queue",
        "result",
        "run_at",
        "state",
        "traceparent",
        "unique_key",
        "worker",
    ];
    assert_eq!(keys(&list[0]), expected);
    let show = turno.json(&["job", "show", &id]);
    let mut expected = expected.to_vec();
    expected.extend(["attempts", "refused"]);
    expected.sort_unstable();
    assert_eq!(keys(&show[0]), expected);
}

#[test]
fn jobs_are_cancelled_reprioritized_and_forgotten() {
    let turno = Turno::new();
    let id = turno.enqueue("q", &[]);
    assert_eq!(turno.json(&["job", "reprioritize", &id, "-5"])[0]["priority"], -5);
    let cancelled = turno.json(&["job", "cancel", &id]);
    assert_eq!(cancelled, [serde_json::json!({ "id": id, "answer": "cancelled", "state": "cancelled" })]);
    let late = turno.call(&["job", "cancel", &id]);
    assert_eq!(
        (late.status, late.out),
        (Some(3), format!("job {id} is too late to cancel: it is cancelled\n"))
    );
    assert_eq!(turno.call(&["job", "reprioritize", &id, "1"]).status, Some(3));
    assert_eq!(turno.call(&["job", "retry", &id]).status, Some(3), "only a dead job is retried");
    assert_eq!(turno.json(&["job", "forget", &id])[0]["answer"], "forgotten");
    for verb in ["show", "cancel", "retry", "forget"] {
        let answer = turno.call(&["job", verb, &id]);
        assert_eq!(answer.status, Some(3), "{verb}");
        assert!(answer.error_line().contains(&id), "{verb}: {answer:?}");
    }
    let waiting = turno.enqueue("q", &[]);
    assert_eq!(
        turno.call(&["job", "forget", &waiting]).status,
        Some(3),
        "an unfinished job is not forgotten"
    );
}

#[test]
fn a_dead_job_is_retried_with_a_new_budget() {
    let turno = Turno::without_schema();
    let args = ["run", "-q", "--max-attempts", "1", "--", "sh", "-c", "echo why >&2; exit 9"];
    assert_eq!(turno.feed(&args, b"a\n").status, Some(1));
    let dead = turno.json(&["job", "show", "1"]);
    assert_eq!((dead[0]["state"].as_str(), dead[0]["failures"].as_u64()), (Some("dead"), Some(1)));
    let attempt = &dead[0]["attempts"][0];
    let expected = [
        "attempt",
        "charged",
        "claimed_at",
        "ended_at",
        "error",
        "error_bytes",
        "started_at",
        "verb",
        "worker",
    ];
    assert_eq!(keys(attempt), expected);
    assert_eq!(
        (attempt["verb"].as_str(), attempt["error"].as_str()),
        (Some("fail"), Some("exit status 9: why"))
    );
    let retried = turno.json(&["job", "retry", "1"]);
    assert_eq!((retried[0]["state"].as_str(), retried[0]["failures"].as_u64()), (Some("ready"), Some(0)));
    assert_eq!(retried[0]["operation_id"], dead[0]["operation_id"]);
}

#[test]
fn queues_are_set_paused_and_listed() {
    let turno = Turno::new();
    let set = turno.json(&[
        "queue",
        "set",
        "q",
        "--max-attempts",
        "5",
        "--retry-base",
        "10s",
        "--retry-cap",
        "1h",
        "--aging",
        "1m",
        "--keep-dead",
        "forever",
        "--keep-succeeded",
        "0s",
        "--run-at-horizon",
        "7d",
        "--description",
        "mail",
    ]);
    let expected = [
        "aging_ms",
        "description",
        "keep_cancelled_ms",
        "keep_dead_ms",
        "keep_succeeded_ms",
        "max_attempts",
        "max_attempts_limit",
        "max_run_limit_ms",
        "max_run_ms",
        "paused_at",
        "queue",
        "receipts_ms",
        "retry_base_ms",
        "retry_cap_ms",
        "run_at_horizon_ms",
    ];
    assert_eq!(keys(&set[0]), expected);
    assert_eq!((set[0]["retry_base_ms"].as_u64(), set[0]["aging_ms"].as_u64()), (Some(10_000), Some(60_000)));
    assert!(set[0]["keep_dead_ms"].is_null());
    let set = turno.json(&["queue", "set", "q", "--aging", "strict", "--run-at-horizon", "none"]);
    assert!(set[0]["aging_ms"].is_null() && set[0]["run_at_horizon_ms"].is_null());

    assert_eq!(turno.json(&["queue", "pause", "q"])[0]["paused"], true);
    let list = turno.json(&["queue", "list"]);
    assert!(list[0]["queue"].is_null(), "the defaults come first: {}", list[0]);
    assert_eq!(list[1]["queue"], "q");
    assert!(list[1]["paused_at"].is_string());
    assert_eq!(turno.json(&["queue", "resume", "q"])[0]["paused"], false);
    assert!(turno.json(&["queue", "list"])[1]["paused_at"].is_null());
    assert_eq!(turno.json(&["queue", "set", "--defaults", "--max-attempts", "9"])[0]["max_attempts"], 9);
    let beyond = turno.call(&["queue", "set", "q", "--max-attempts", "0"]);
    assert_eq!(beyond.status, Some(2));
    assert!(beyond.error_line().contains("max_attempts"));
    assert_eq!(turno.call(&["queue", "set"]).status, Some(2));
}

#[test]
fn a_limit_of_the_queue_is_the_producers_error() {
    let turno = Turno::new();
    turno.json(&["queue", "set", "q", "--max-attempts", "2", "--max-attempts-limit", "3"]);
    let refused = turno.call(&["enqueue", "--queue", "q", "--kind", "k", "--max-attempts", "4"]);
    assert_eq!(refused.status, Some(2), "{refused:?}");
    assert!(refused.error_line().contains("max_attempts"), "{refused:?}");
    assert!(turno.json(&["job", "list"]).is_empty());
}

#[test]
fn stats_and_audit_tell_the_state() {
    let turno = Turno::new();
    turno.enqueue("q", &[]);
    turno.enqueue("q", &["--delay", "1h"]);
    turno.enqueue("other", &[]);
    let stats = turno.json(&["stats", "--queue", "q"]);
    let expected = [
        "cancelled",
        "dead",
        "expired",
        "finish_p50_ms",
        "finish_p99_ms",
        "oldest_due_age_ms",
        "paused",
        "queue",
        "ready",
        "refused",
        "retries",
        "running",
        "scheduled",
        "start_p50_ms",
        "start_p99_ms",
        "succeeded",
        "window_ms",
    ];
    assert_eq!((stats.len(), keys(&stats[0])), (1, expected.to_vec()));
    assert_eq!(stats[0]["ready"], serde_json::json!({ "n": 1, "capped": false }));
    assert_eq!(stats[0]["scheduled"]["n"], 1);
    assert!(turno.call(&["stats"]).out.contains("other"));
    assert!(turno.json(&["audit"]).is_empty());
    assert!(turno.call(&["audit"]).out.starts_with("no findings"));
}

#[test]
fn maintenance_says_what_it_did() {
    let turno = Turno::new();
    turno.enqueue("q", &["--delay", "1h"]);
    assert_eq!(turno.json(&["promote"]), [serde_json::json!({ "jobs": 0 })]);
    assert_eq!(turno.json(&["promote", "--queue", "q", "--limit", "1"])[0]["jobs"], 0);
    assert_eq!(turno.json(&["reap"]), [serde_json::json!({ "jobs": [], "holding_for_ms": null })]);
    assert_eq!(turno.json(&["prune"]), [serde_json::json!({ "jobs": 0, "refused": 0, "schedule_runs": 0 })]);
    assert!(turno.json(&["refused"]).is_empty());
    assert!(turno.json(&["held", "6f2f0a1e-9d7b-4c0e-8a1f-2b3c4d5e6f70"]).is_empty());
    let wrong = turno.call(&["held", "secret"]);
    assert_eq!((wrong.status, wrong.error_line()), (Some(2), "turno: the token is not a UUID"));
    assert_eq!(turno.call(&["held", "00000000-0000-0000-0000-000000000000"]).status, Some(2));
}

#[test]
fn prune_removes_what_is_kept_no_longer() {
    let turno = Turno::new();
    turno.json(&["queue", "set", "q", "--keep-cancelled", "0s", "--receipts", "0s"]);
    for _ in 0..3 {
        let id = turno.enqueue("q", &[]);
        turno.json(&["job", "cancel", &id]);
    }
    turno.json(&["prune"]);
    assert!(turno.json(&["job", "list"]).is_empty());
}

#[test]
fn migrate_creates_checks_and_prints() {
    let turno = Turno::without_schema();
    let script = turno.call(&["migrate", "--print"]);
    assert!(script.status == Some(0) && script.out.contains("CREATE TABLE"), "{script:?}");
    assert!(!turno.db().exists(), "printing creates nothing");
    assert_eq!(turno.call(&["migrate", "--check"]).status, Some(4), "there is no file");
    let created = turno.json(&["migrate"]);
    assert_eq!(keys(&created[0]), ["applied", "operations", "version", "version_before"]);
    assert!(created[0]["version_before"].is_null());
    assert_eq!(turno.call(&["migrate", "--check"]).status, Some(0));
    assert!(turno.call(&["migrate"]).out.starts_with("the schema is current"));
}

#[test]
fn a_file_without_a_schema_is_a_clear_error() {
    let turno = Turno::without_schema();
    std::fs::write(turno.db(), "").unwrap();
    assert_eq!(turno.call(&["migrate", "--check"]).status, Some(6));
    let answer = turno.call(&["stats"]);
    assert_eq!(answer.status, Some(6), "{answer:?}");
    assert!(answer.error_line().contains("migrate"), "{answer:?}");
}

#[test]
fn sql_prints_every_operation() {
    let turno = Turno::without_schema();
    let names = turno.call(&["sql"]);
    assert!(names.out.lines().count() > 15 && names.out.contains("claim"), "{names:?}");
    for name in names.out.lines() {
        assert!(!turno.call(&["sql", name]).out.trim().is_empty(), "{name}");
    }
    let claim = turno.json(&["sql", "claim"]);
    assert_eq!(
        (claim[0]["operation"].as_str(), claim[0]["engine"].as_str()),
        (Some("claim"), Some("sqlite"))
    );
    let unknown = turno.call(&["sql", "nothing"]);
    assert!(unknown.status == Some(2) && unknown.error_line().contains("claim"), "{unknown:?}");
    assert!(!turno.db().exists(), "reading a text creates no database");
}

#[test]
fn man_writes_a_page_for_every_command_but_the_hidden() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man");
    let mut command = bare();
    command.arg("man").arg(&pages);
    assert_eq!(finish(command, b"").status, Some(0));
    let page = |name: &str| std::fs::read_to_string(pages.join(name)).unwrap_or_default();
    assert!(page("turno.1").contains("Exit status") && page("turno-job-list.1").contains(".SH OPTIONS"));
    assert!(page("turno-work.1").contains("TURNO_JOB_ID"));
    assert!(
        std::fs::read_dir(&pages).unwrap().all(|file| !file.unwrap().path().to_string_lossy().contains("__"))
    );
    let mut command = bare();
    command.arg("man").arg(pages.join("turno.1"));
    let answer = finish(command, b"");
    assert_eq!(answer.status, Some(74), "{answer:?}");
    assert!(answer.error_line().contains("turno.1"), "{answer:?}");
}

#[test]
fn help_and_completions_need_no_database() {
    for (args, expected) in [
        (&["--help"][..], "Exit status:"),
        (&["-h"], "Examples:"),
        (&["run", "--help"], "xargs that survives a crash"),
        (&["enqueue", "--help"], "Examples:"),
        (&["work", "--help"], "75 gives it back uncharged"),
        (&["completions", "bash"], "_turno"),
        (&["completions", "zsh"], "#compdef turno"),
        (&["completions", "fish"], "complete -c turno"),
    ] {
        let mut command = bare();
        command.args(args);
        let answer = finish(command, b"");
        assert_eq!(answer.status, Some(0), "{args:?}");
        // Wrapped text may break anywhere between two words.
        let words = answer.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(expected), "{args:?}: {}", answer.out);
        assert!(args[0] == "completions" || !words.contains("__guard"), "{args:?}");
    }
}
