//! Bad input: each gets one clear error line, its documented status, and loses nothing.

mod common;

use common::{Answer, Turno, bare, finish};

fn with_url(url: &str, args: &[&str]) -> Answer {
    let mut command = bare();
    command.env("TURNO_URL", url).args(args);
    finish(command, b"")
}

#[test]
fn no_database_is_named() {
    let mut command = bare();
    command.arg("stats");
    let answer = finish(command, b"");
    assert_eq!(answer.status, Some(2));
    assert!(answer.error_line().contains("--db") && answer.err.contains("TURNO_URL"));
    assert_eq!(with_url("", &["stats"]).status, Some(2));
}

#[test]
fn an_unknown_scheme_names_the_known_ones_and_no_password() {
    let answer = with_url("oracle://user:s3cret@db/x", &["stats"]);
    assert_eq!(answer.status, Some(2));
    let line = answer.error_line();
    assert!(line.contains("oracle") && line.contains("postgres") && !line.contains("s3cret"), "{line}");
}

#[test]
fn a_server_that_cannot_be_reached_is_its_own_status_and_shows_no_password() {
    // A port that was free a moment ago; nobody else listens on it in a test that needs no server.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let url = format!("postgres://user:s3cret@127.0.0.1:{port}/db?connect_timeout=2");
    for args in [&["stats"][..], &["stats", "--json"], &["enqueue", "--queue", "q", "--kind", "k"]] {
        let answer = with_url(&url, args);
        assert_eq!(answer.status, Some(4), "{answer:?}");
        assert!(!answer.error_line().contains("s3cret"), "{answer:?}");
    }
    let json: serde_json::Value =
        serde_json::from_str(with_url(&url, &["stats", "--json"]).error_line()).unwrap();
    assert_eq!(
        (json["error"]["kind"].as_str(), json["error"]["exit_status"].as_u64()),
        (Some("unavailable"), Some(4))
    );
}

#[test]
fn a_missing_file_is_not_created() {
    let turno = Turno::without_schema();
    for args in
        [&["stats"][..], &["job", "list"], &["enqueue", "--queue", "q", "--kind", "k"], &["run", "--forget"]]
    {
        let answer = turno.call(args);
        assert_eq!(answer.status, Some(4), "{args:?}: {answer:?}");
        assert!(answer.error_line().contains("jobs.db"), "{answer:?}");
        assert!(!turno.db().exists(), "{args:?}");
    }
}

#[test]
fn a_file_that_is_no_database_is_left_alone() {
    let turno = Turno::without_schema();
    let text = "This is my diary. ".repeat(200);
    std::fs::write(turno.db(), &text).unwrap();
    for args in [&["stats"][..], &["migrate"], &["run", "--", "cat"]] {
        let answer = turno.call(args);
        assert!(!matches!(answer.status, Some(0..=1) | None), "{args:?}: {answer:?}");
        answer.error_line();
        assert_eq!(std::fs::read_to_string(turno.db()).unwrap(), text);
    }
}

#[test]
fn a_schema_newer_than_the_program_is_refused_and_untouched() {
    let turno = Turno::new();
    turno.enqueue("q", &[]);
    turno.sql("UPDATE turno_meta SET version = 9999, oldest_binary = 9999");
    for args in
        [&["stats"][..], &["migrate"], &["enqueue", "--queue", "q", "--kind", "k"], &["run", "--", "cat"]]
    {
        let answer = turno.feed(args, b"a\n");
        assert_eq!(answer.status, Some(6), "{args:?}: {answer:?}");
        assert!(answer.error_line().contains("9999"), "{answer:?}");
    }
    turno.sql("UPDATE turno_meta SET version = 1, oldest_binary = 1");
    assert_eq!(turno.json(&["job", "list"]).len(), 1);
}

/// On a file system of 1 MiB, which a namespace of its own can mount without any right.
#[test]
fn a_full_disk_is_one_clear_error_and_loses_nothing() {
    let turno = Turno::without_schema();
    std::fs::create_dir(turno.path("small")).unwrap();
    let script = r#"
        mount -t tmpfs -o size=1m small small || exit 99
        cd small
        export TURNO_URL=jobs.db
        "$0" migrate >&2 || exit 98
        seq 100000 | sed 's/.*/{"payload":"this is padding for row number &"}/' |
            "$0" enqueue --queue q --kind k --ndjson - --batch 500 2> ../enqueue.err
        echo "enqueue $?"
        seq 3 | "$0" run -q -- cat 2> ../run.err
        echo "run $?"
        before=
        while page=$("$0" job list --queue q --json --limit 1000 $before); [ -n "$page" ]; do
            echo "$page"
            before="--before $(echo "$page" | tail -1 | sed 's/.*"id":"\([0-9]*\)".*/\1/')"
        done | grep -c '"state":"ready"'
        "$0" audit >&2
        echo "audit $?"
    "#;
    let mut command = std::process::Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    command.arg(env!("CARGO_BIN_EXE_turno")).current_dir(turno.path("")).env_remove("TURNO_URL");
    let answer = finish(command, b"");
    if answer.status == Some(99) || answer.err.contains("unshare") {
        // Visible with `cargo test -- --nocapture`; there is no way to fill a disk without a small one.
        eprintln!("NOT RUN: this system does not let a test mount a file system: {}", answer.err);
        return;
    }
    let out: Vec<&str> = answer.out.lines().collect();
    let error = std::fs::read_to_string(turno.path("enqueue.err")).unwrap();
    assert_eq!(out[0], "enqueue 4", "{answer:?}");
    assert!(error.lines().count() == 1 && error.contains("full"), "{error}");
    let accepted = error.split("(enqueued ").nth(1).unwrap().split(' ').next().unwrap();
    let run_error = std::fs::read_to_string(turno.path("run.err")).unwrap();
    assert!(out[1] == "run 4" && run_error.contains("full"), "{answer:?}: {run_error}");
    assert_eq!(out[2..], [accepted, "audit 0"], "what was accepted is there: {error}");
}

#[test]
fn a_job_beyond_a_limit_is_refused_by_name() {
    let turno = Turno::new();
    let long = "x".repeat(201);
    let deep = format!("{}{}", "[".repeat(101), "]".repeat(101));
    let table: [(&[&str], &str); 15] = [
        (&["--payload", "{"], "payload is not JSON"),
        (&["--payload", ""], "payload is not JSON"),
        (&["--payload", &deep], "nested deeper than 100"),
        (&["--payload", "\"\u{1}\""], "payload is not JSON"),
        (&["--priority", "1001"], "priority 1001"),
        (&["--priority", "-99999999999999999999"], "--priority"),
        (&["--max-attempts", "0"], "max_attempts 0"),
        (&["--max-attempts", "-1"], "invalid value '-1' for '--max-attempts"),
        (&["--delay", "-5s"], "invalid value '-5s' for '--delay"),
        (&["--max-attempts", "1000001"], "max_attempts 1000001"),
        (&["--max-run", "0s"], "max_run"),
        (&["--max-run", "9999999d"], "max_run"),
        (&["--run-at", "2027-01-01T00:00:00"], "has no offset"),
        (&["--run-at", "99999-01-01T00:00:00Z"], "RFC 3339"),
        (&["--unique-key", ""], "unique_key is empty"),
    ];
    for (args, why) in table {
        let all = [&["enqueue", "--queue", "q", "--kind", "k"], args].concat();
        let answer = turno.call(&all);
        assert_eq!(answer.status, Some(2), "{args:?}: {answer:?}");
        assert!(answer.err.contains(why), "{args:?}: {answer:?}");
    }
    for queue in ["", &long, "a\nb"] {
        let answer = turno.call(&["enqueue", "--queue", queue, "--kind", "k"]);
        assert!(answer.status == Some(2) && answer.error_line().contains("queue"), "{answer:?}");
    }
    assert!(turno.json(&["job", "list"]).is_empty(), "nothing was written");
}

#[test]
fn a_payload_that_is_too_large_is_refused_by_name() {
    let turno = Turno::new();
    let row = format!("{{\"queue\":\"q\",\"kind\":\"k\",\"payload\":\"{}\"}}\n", "x".repeat(1 << 20));
    let answer = turno.feed(&["enqueue", "--ndjson", "-"], row.as_bytes());
    assert_eq!(answer.status, Some(2));
    assert!(answer.error_line().contains("line 1") && answer.err.contains("1048576"), "{answer:?}");
    let endless = "x".repeat(3 << 20);
    let answer = turno.feed(&["enqueue", "--ndjson", "-"], endless.as_bytes());
    assert!(answer.status == Some(2) && answer.error_line().contains("line 1"), "{answer:?}");
    let answer = turno.feed(&["run", "-q", "--", "cat"], endless.as_bytes());
    assert!(answer.status == Some(2) && answer.err.contains("line 1"), "{answer:?}");
}

#[test]
fn a_malformed_row_is_named_and_its_batch_is_not_enqueued() {
    let turno = Turno::new();
    let good = |n: usize| format!("{{\"queue\":\"q\",\"kind\":\"k\",\"payload\":{n}}}\n");
    let bad = [
        ("{\"queue\":\"q\"\n", "line 25"),
        ("{\"queue\":\"q\",\"kind\":\"k\",\"paylaod\":1}\n", "`paylaod`"),
        ("{\"queue\":\"q\"}\n", "missing field `kind`"),
        ("[1]\n", "not a JSON object"),
        ("\u{0}\n", "not a JSON object"),
        ("{\"queue\":\"a\\u0000b\",\"kind\":\"k\"}\n", "control character"),
    ];
    for (n, (row, why)) in bad.iter().enumerate() {
        let rows: String = (0..24).map(good).chain([row.to_string()]).chain((0..9).map(good)).collect();
        let answer = turno.feed(&["enqueue", "--ndjson", "-", "--batch", "10"], rows.as_bytes());
        assert_eq!(answer.status, Some(2), "{answer:?}");
        let line = answer.error_line();
        assert!(line.contains("line 25") && line.contains(why), "{line}");
        // A batch goes early if the input is slow, so more than the full batches may have been accepted.
        let accepted =
            line.split("lines 1 to ").nth(1).unwrap().split(' ').next().unwrap().parse::<usize>().unwrap();
        assert!((20..=24).contains(&accepted), "{line}");
        let jobs = turno.json(&["job", "list", "--limit", "1000"]);
        assert_eq!(jobs.len(), accepted, "row {n}: what was accepted, and nothing else");
        for job in jobs {
            turno.json(&["job", "cancel", job["id"].as_str().unwrap()]);
            turno.json(&["job", "forget", job["id"].as_str().unwrap()]);
        }
    }
}

#[test]
fn bytes_that_are_not_utf_8_are_refused_in_ndjson() {
    let turno = Turno::new();
    let answer =
        turno.feed(&["enqueue", "--queue", "q", "--kind", "k", "--ndjson", "-"], b"{\"payload\":\"\xff\"}\n");
    assert!(answer.status == Some(2) && answer.error_line().contains("line 1: not UTF-8"), "{answer:?}");
}

#[test]
fn an_input_file_that_cannot_be_read_is_named() {
    let turno = Turno::new();
    let answer = turno.call(&["enqueue", "--queue", "q", "--kind", "k", "--ndjson", "nowhere"]);
    assert!(answer.status == Some(74) && answer.error_line().contains("nowhere"), "{answer:?}");
    let answer = turno.call(&["enqueue", "--queue", "q", "--kind", "k", "--ndjson", "."]);
    assert!(answer.status == Some(74) && answer.error_line().contains("line 0"), "{answer:?}");
}

#[test]
fn ids_are_checked() {
    let turno = Turno::new();
    for id in ["x", "99999999999999999999", ""] {
        assert_eq!(turno.call(&["job", "show", id]).status, Some(2), "{id:?}");
    }
    assert_eq!(turno.call(&["job", "show", "9223372036854775807"]).status, Some(3));
}

#[test]
fn what_is_wrong_with_the_arguments_is_json_where_json_was_asked_for() {
    let turno = Turno::new();
    for args in [
        &["job", "list", "--state", "foo", "--json"][..],
        &["bogus", "--json"],
        &["job", "list", "--queue", "", "--json"],
    ] {
        let answer = turno.call(args);
        assert_eq!((answer.status, answer.out.as_str()), (Some(2), ""), "{args:?}: {answer:?}");
        let line: serde_json::Value = serde_json::from_str(answer.error_line()).expect("one line of JSON");
        assert_eq!(line["error"]["kind"], "invalid_argument", "{args:?}");
    }
    let plain = turno.call(&["job", "list", "--state", "foo"]);
    assert!(plain.status == Some(2) && plain.err.starts_with("error: "), "{plain:?}");
}

#[test]
fn a_payload_may_be_a_negative_number() {
    let turno = Turno::new();
    assert_eq!(turno.call(&["enqueue", "--queue", "q", "--kind", "k", "--payload", "-1"]).status, Some(0));
    assert_eq!(turno.json(&["job", "list", "--show-payload"])[0]["payload"], -1);
}
