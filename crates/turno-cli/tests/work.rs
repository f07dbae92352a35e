//! `turno work` with the real binary.

mod common;

use common::{Answer, Running, Turno, is_alive, lines, signal, until};
use rustix::process::Signal;

fn work(turno: &Turno, args: &[&str]) -> Running {
    turno.start(
        &[&["work", "--json", "--queue", "q", "--lease", "2s", "--kill-after", "500ms"], args].concat(),
    )
}

fn stop(work: Running, number: Signal) -> Answer {
    signal(work.id(), number);
    work.answer()
}

#[test]
fn each_kind_has_its_command_and_its_exit_status_decides() {
    let turno = Turno::new();
    let ids: Vec<String> = ["ok", "text", "bad", "later", "other"]
        .iter()
        .map(|kind| {
            let args = [
                "enqueue",
                "--queue",
                "q",
                "--kind",
                kind,
                "--payload",
                "{\"n\": 1.0}",
                "--max-attempts",
                "1",
            ];
            turno.json(&args)[0]["id"].as_str().unwrap().to_owned()
        })
        .collect();
    let env = turno.path("env");
    let ok = format!("ok=env | grep ^TURNO_ | sort > {}; cat", env.display());
    let kinds = ["--kind", &ok, "--kind", "text=echo done", "--kind", "bad=echo why >&2; exit 4", "--kind"];
    let worker = work(&turno, &[&kinds[..], &["later=exit 75", "--snooze", "1h"]].concat());
    let states = ["succeeded", "succeeded", "dead", "scheduled"];
    for (id, state) in ids.iter().zip(states) {
        until(state, || turno.state(id) == state);
    }
    let answer = stop(worker, Signal::TERM);
    assert_eq!(answer.status, Some(143), "{answer:?}");
    assert!(answer.err.contains("why"), "standard error is passed on: {answer:?}");
    let report = &answer.documents()[0];
    assert_eq!(
        (report["metrics"]["succeeded"].as_u64(), report["metrics"]["dead"].as_u64()),
        (Some(2), Some(1))
    );

    let job = |n: usize| turno.json(&["job", "show", &ids[n], "--show-payload"]).remove(0);
    assert_eq!(job(0)["result"], serde_json::json!({ "n": 1.0 }));
    assert!(job(1)["result"].is_null(), "what is no JSON is no result");
    assert_eq!(job(2)["error"], "exit status 4: why");
    assert_eq!(
        (job(3)["failures"].as_u64(), job(3)["attempts"][0]["charged"].as_bool()),
        (Some(0), Some(false))
    );
    assert_ne!(job(4)["state"], "dead", "a kind without a command is put back");
    assert_eq!(job(4)["failures"], 0);
    let env = lines(&env);
    for name in ["TURNO_JOB_ID=1", "TURNO_ATTEMPT=1", "TURNO_KIND=ok", "TURNO_QUEUE=q"] {
        assert!(env.iter().any(|line| line == name), "{name}: {env:?}");
    }
    let operation = format!("TURNO_OPERATION_ID={}", job(0)["operation_id"].as_str().unwrap());
    assert!(env.contains(&operation), "{env:?}");
}

#[test]
fn a_signal_lets_commands_end_within_the_grace_and_gives_back_the_rest() {
    let turno = Turno::new();
    let (log, go) = (turno.path("log"), turno.path("go"));
    let quick =
        turno.json(&["enqueue", "--queue", "q", "--kind", "quick"])[0]["id"].as_str().unwrap().to_owned();
    let slow =
        turno.json(&["enqueue", "--queue", "q", "--kind", "slow"])[0]["id"].as_str().unwrap().to_owned();
    let quick_command =
        format!("quick=echo $$ >> {}; until [ -e {} ]; do sleep 0.02; done", log.display(), go.display());
    let slow_command = format!("slow=echo $$ >> {}; exec sleep 1000", log.display());
    let worker = work(&turno, &["--kind", &quick_command, "--kind", &slow_command, "--grace", "2s"]);
    until("both are at work", || lines(&log).len() == 2);
    signal(worker.id(), Signal::INT);
    std::fs::write(&go, "").unwrap();
    let answer = worker.answer();
    assert_eq!(answer.status, Some(130), "{answer:?}");
    assert_eq!((turno.state(&quick).as_str(), turno.state(&slow).as_str()), ("succeeded", "ready"));
    let job = &turno.json(&["job", "show", &slow])[0];
    assert_eq!((job["failures"].as_u64(), job["attempts"][0]["verb"].as_str()), (Some(0), Some("release")));
    for pid in lines(&log) {
        assert!(!is_alive(&pid), "{pid} is alive");
    }
}

#[test]
fn a_cancelled_job_is_stopped() {
    let turno = Turno::new();
    let log = turno.path("log");
    let id = turno.json(&["enqueue", "--queue", "q", "--kind", "k"])[0]["id"].as_str().unwrap().to_owned();
    let command = format!("k=echo $$ >> {}; sleep 1000", log.display());
    let worker = work(&turno, &["--kind", &command]);
    until("it is at work", || lines(&log).len() == 1);
    assert_eq!(turno.json(&["job", "cancel", &id])[0]["answer"], "requested");
    until("it is cancelled", || turno.state(&id) == "cancelled");
    assert!(!is_alive(&lines(&log)[0]));
    stop(worker, Signal::TERM);
}

#[test]
fn a_revoked_job_is_killed_and_its_late_result_is_in_the_ledger() {
    let turno = Turno::new();
    let log = turno.path("log");
    let id = turno.json(&["enqueue", "--queue", "q", "--kind", "k"])[0]["id"].as_str().unwrap().to_owned();
    let command = format!("k=trap '' TERM; echo $$ >> {}; while :; do sleep 0.05; done", log.display());
    let worker = work(&turno, &["--kind", &command, "--name", "worker one"]);
    until("it is at work", || lines(&log).len() == 1);
    assert_eq!(turno.json(&["job", "cancel", &id, "--force"])[0]["answer"], "cancelled");
    until("its command is killed", || !is_alive(&lines(&log)[0]));
    until("the refusal is recorded", || !turno.json(&["refused", "--job", &id]).is_empty());
    stop(worker, Signal::TERM);
    let line = &turno.json(&["refused"])[0];
    assert_eq!((line["worker"].as_str(), line["job"].as_str()), (Some("worker one"), Some(id.as_str())));
    assert!(line["detail"].get("redacted_bytes").is_some(), "{line}");
    assert!(turno.json(&["refused", "--show-payload"])[0]["detail"].is_string());
}

#[test]
fn nothing_of_a_killed_worker_stays_alive_and_its_job_goes_on() {
    let turno = Turno::new();
    let (log, go) = (turno.path("log"), turno.path("go"));
    let id = turno.json(&["enqueue", "--queue", "q", "--kind", "k"])[0]["id"].as_str().unwrap().to_owned();
    let command = format!(
        "k=[ -e {} ] && exit; sh -c 'trap \"\" TERM HUP; echo $$ >> {}; while :; do sleep 0.05; done' & wait",
        go.display(),
        log.display()
    );
    let worker = work(&turno, &["--kind", &command]);
    until("it is at work", || lines(&log).len() == 1);
    stop(worker, Signal::KILL);
    until("the grandchild is gone", || !is_alive(&lines(&log)[0]));
    std::fs::write(&go, "").unwrap();
    // Time moves by ageing the row: the lease ends, and the retry is due.
    turno.sql("UPDATE turno_job SET lease_until = 1 WHERE state = 'running'");
    assert_eq!(turno.json(&["reap"])[0]["jobs"][0]["state"], "scheduled");
    let worker = work(&turno, &["--kind", &command]);
    until("it is done", || turno.state(&id) == "succeeded");
    stop(worker, Signal::TERM);
    let attempts = turno.json(&["job", "show", &id])[0]["attempts"].clone();
    assert_eq!(
        (attempts[0]["verb"].as_str(), attempts[1]["verb"].as_str()),
        (Some("expire"), Some("complete"))
    );
}

#[test]
fn a_wrong_option_is_named() {
    let turno = Turno::new();
    let table: [(&[&str], &str); 5] = [
        (&["work", "--queue", "q"], "--kind"),
        (&["work", "--kind", "a=b"], "--queue"),
        (&["work", "--queue", "q", "--kind", "a"], "NAME=CMD"),
        (&["work", "--queue", "q", "--kind", "a= "], "empty command"),
        (&["work", "--queue", "", "--kind", "a=b"], "queue is empty"),
    ];
    for (args, why) in table {
        let answer = turno.call(args);
        assert_eq!(answer.status, Some(2), "{args:?}: {answer:?}");
        assert!(answer.err.contains(why), "{args:?}: {answer:?}");
    }
}
