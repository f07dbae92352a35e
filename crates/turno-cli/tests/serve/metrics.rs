//! `/metrics` and `/healthz` of both commands.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::cases;
use crate::common::{Running, signal, until};
use crate::rig::{Rig, Server};

cases![a_worker_tells_what_it_does, a_server_tells_how_the_queues_are];

fn a_worker_tells_what_it_does(rig: &Rig) {
    let mut command = rig.command(&[
        "work",
        "--queue",
        "q",
        "--kind",
        "k=true",
        "--kind",
        "bad=false",
        "--metrics",
        "127.0.0.1:0",
    ]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = Running::start(command);
    let mut line = String::new();
    BufReader::new(running.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let url =
        line.trim().strip_prefix("turno: metrics at ").unwrap().strip_suffix("/metrics").unwrap().to_owned();
    let server = Server { url, running, token: None, cookie: None };
    let first = server.get("/metrics");
    assert_eq!(first.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    for seeded in [
        "turno_attempts_ended_total{kind=\"k\",outcome=\"succeeded\"} 0\n",
        "turno_start_seconds_count{kind=\"bad\"} 0\n",
        "turno_queue_jobs{queue=\"q\",state=\"dead\"} 0",
        "turno_workers 1",
        "turno_database_retries_total 0\n",
        "turno_database_connections ",
        "turno_database_oldest_transaction_age_seconds 0",
    ] {
        assert!(first.text.contains(seeded), "{seeded} is missing:\n{}", first.text);
    }
    rig.enqueue("q", "k", &[]);
    rig.enqueue("q", "bad", &["--max-attempts", "1"]);
    until("both are counted", || {
        let text = server.get("/metrics").text;
        text.contains("turno_attempts_ended_total{kind=\"k\",outcome=\"succeeded\"} 1\n")
            && text.contains("turno_attempts_ended_total{kind=\"bad\",outcome=\"dead\"} 1\n")
            && text.contains("turno_finish_seconds_count{kind=\"k\"} 1\n")
    });
    assert_eq!(server.get("/healthz").text, "ok\n");
    assert_eq!(server.get("/other").problem(), (404, "not_found".into()));
    signal(server.running.id(), rustix::process::Signal::TERM);
    assert_eq!(server.running.answer().status, Some(143));
}

fn a_server_tells_how_the_queues_are(rig: &Rig) {
    rig.enqueue("q", "k", &[]);
    rig.enqueue("other", "k", &["--run-at", "9990-01-01T00:00:00Z"]);
    let server = rig.serve(&[]);
    let text = server.get("/metrics").text;
    assert!(text.contains("turno_queue_jobs{queue=\"q\",state=\"ready\"} 1"), "{text}");
    assert!(text.contains("turno_queue_jobs{queue=\"other\",state=\"scheduled\"} 1"), "{text}");
    assert!(text.contains("turno_queue_oldest_due_age_seconds{queue=\"q\"} 0."), "{text}");
    let only = rig.serve(&["--queue", "q"]).get("/metrics").text;
    assert!(only.contains("queue=\"q\"") && !only.contains("queue=\"other\""), "{only}");
}
