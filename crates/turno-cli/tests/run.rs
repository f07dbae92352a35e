//! `turno run` with the real binary.

mod common;

use std::io::Write;

use common::{Turno, is_alive, lines, signal, until};
use rustix::process::Signal;
use serde_json::Value;

/// The summary that `--json` prints last on standard error.
fn summary(err: &str) -> Value {
    serde_json::from_str(err.lines().last().expect("a summary")).expect(err)
}

#[track_caller]
fn counts(err: &str, expected: [(&str, u64); 4]) {
    let summary = summary(err);
    for (name, n) in expected {
        assert_eq!(summary[name], n, "{name}: {summary}");
    }
}

#[test]
fn every_line_is_run_once_and_again_only_what_is_new() {
    let turno = Turno::without_schema();
    let first = turno.feed(&["run", "--json", "-j", "2", "--", "wc", "-c"], b"a\nbcd\na\n");
    assert_eq!(first.status, Some(0), "{first:?}");
    let mut sizes: Vec<&str> = first.out.split_whitespace().collect();
    sizes.sort_unstable();
    assert_eq!(sizes, ["2", "2", "4"]);
    counts(&first.err, [("lines", 3), ("succeeded", 3), ("done_before", 0), ("retries", 0)]);

    let second = turno.feed(&["run", "--json", "--", "wc", "-c"], b"bcd\na\nnew\na\na\n");
    let mut sizes: Vec<&str> = second.out.split_whitespace().collect();
    sizes.sort_unstable();
    assert_eq!((second.status, sizes), (Some(0), vec!["2", "4"]), "{second:?}");
    counts(&second.err, [("lines", 5), ("succeeded", 2), ("done_before", 3), ("dead", 0)]);
}

#[test]
fn lines_end_as_the_help_says() {
    let turno = Turno::without_schema();
    let run = |name: &str, args: &[&str], input: &[u8]| {
        let all = [&["run", "--name", name, "-j", "1", "-q"], args, &["--", "od", "-An", "-tx1"]].concat();
        let answer = turno.feed(&all, input);
        assert_eq!(answer.status, Some(0), "{answer:?}");
        answer.out.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(run("lf", &[], b"a\r\n\n\r\n\xff\xfe\nlast"), ["61 0a", "ff fe 0a", "6c 61 73 74 0a"]);
    assert_eq!(run("nul", &["-0"], b"a\r\n\0\0b\0"), ["61 0d 0a 00", "62 00"]);
    assert_eq!(run("rows", &["--ndjson"], b"{\"payload\": [1.0, 2]}\n"), ["5b 31 2e 30 2c 20 32 5d 0a"]);
}

#[test]
fn the_placeholder_and_the_environment_are_the_lines() {
    let turno = Turno::without_schema();
    let script = r#"printf '%s|%s|%s|%s\n' "$1" "$TURNO_JOB_ID" "$TURNO_ATTEMPT" "${#TURNO_OPERATION_ID}""#;
    let answer = turno.feed(&["run", "-q", "--", "sh", "-c", script, "x", "<{}-{}>"], b"a b\n");
    assert_eq!(answer.out, "<a b-a b>|1|1|36\n", "{answer:?}");
}

#[test]
fn outputs_of_two_lines_never_mix() {
    let turno = Turno::without_schema();
    let script = "read l; i=0; while [ $i -lt 300 ]; do echo $l; i=$((i+1)); done; echo $l >&2";
    let input: String = (0..8).map(|n| format!("line{n}\n")).collect();
    let answer = turno.feed(&["run", "-q", "-j", "4", "--", "sh", "-c", script], input.as_bytes());
    let out: Vec<&str> = answer.out.lines().collect();
    assert_eq!((answer.status, out.len()), (Some(0), 2400));
    for chunk in out.chunks(300) {
        assert!(chunk.iter().all(|line| *line == chunk[0]), "mixed: {chunk:?}");
    }
    for n in 0..8 {
        assert!(answer.err.contains(&format!("line{n}\n")), "{}", answer.err);
    }
}

#[test]
fn a_failing_line_is_tried_as_often_as_asked_and_then_dead() {
    let turno = Turno::without_schema();
    let log = turno.path("log");
    let script =
        format!("read l; echo $l >> {}; [ $l != bad ] || {{ echo why >&2; exit 3; }}", log.display());
    let run = |more: &[&str]| {
        let args = ["run", "--json", "--max-attempts", "3", "--retry-base", "10ms"];
        turno.feed(&[&args, more, &["--", "sh", "-c", &script]].concat(), b"good\nbad\n")
    };
    let first = run(&[]);
    assert_eq!(first.status, Some(1), "{first:?}");
    counts(&first.err, [("succeeded", 1), ("dead", 1), ("retries", 2), ("cancelled", 0)]);
    let starts = || lines(&log).iter().filter(|line| *line == "bad").count();
    assert_eq!(starts(), 3);
    assert_eq!(summary(&first.err)["dead_lines"][0]["error"], "exit status 3: why");
    assert_eq!((run(&[]).status, starts()), (Some(1), 3), "a dead line is not run again");
    assert_eq!((run(&["--retry-dead"]).status, starts()), (Some(1), 6));
}

#[test]
fn another_command_under_the_same_name_is_refused_until_the_records_are_forgotten() {
    let turno = Turno::without_schema();
    let run = |args: &[&str]| turno.feed(&[&["run", "-q"], args].concat(), b"a\n");
    assert_eq!(run(&["--", "cat"]).out, "a\n");
    let refused = run(&["--", "wc"]);
    assert_eq!(refused.status, Some(3));
    assert!(
        refused.error_line().contains("another command") && refused.err.contains("--again"),
        "{refused:?}"
    );
    assert_eq!(run(&["-0", "--", "cat"]).status, Some(3), "another kind of input is another run");
    assert_eq!(run(&["--name", "other", "--", "tr", "a", "b"]).out, "b\n");
    assert_eq!(run(&["--again", "--", "tr", "a", "c"]).out, "c\n");
    assert_eq!(run(&["--", "tr", "a", "c"]).out, "", "done lines are not run again");
    let forgotten = turno.json(&["run", "--forget"]);
    assert_eq!(forgotten[0]["forgotten"], 1);
    assert_eq!(run(&["--", "cat"]).out, "a\n");
    assert_eq!(
        turno.json(&["job", "list", "--queue", "run:other"]).len(),
        1,
        "other names keep their records"
    );
}

#[test]
fn a_command_that_takes_too_long_is_stopped_with_its_group() {
    let turno = Turno::without_schema();
    let pids = turno.path("pids");
    // The shell ignores SIGTERM and waits for a child of its own.
    let script = format!("trap '' TERM; sleep 1000 & echo $$ $! >> {}; wait", pids.display());
    let args = ["run", "--json", "--max-attempts", "1", "--timeout", "200ms", "--kill-after", "200ms"];
    let answer = turno.feed(&[&args[..], &["--", "sh", "-c", &script]].concat(), b"x\n");
    assert_eq!(answer.status, Some(1), "{answer:?}");
    assert_eq!(summary(&answer.err)["dead_lines"][0]["error"], "timed out after 200ms");
    for pid in lines(&pids)[0].split(' ') {
        until("the group is gone", || !is_alive(pid));
    }
}

#[test]
fn what_a_command_leaves_in_its_group_ends_with_it() {
    let turno = Turno::without_schema();
    let pids = turno.path("pids");
    let script = format!("sleep 1000 & echo $! >> {}", pids.display());
    let answer = turno.feed(&["run", "-q", "--", "sh", "-c", &script], b"x\n");
    assert_eq!(answer.status, Some(0), "{answer:?}");
    until("the group is gone", || !is_alive(&lines(&pids)[0]));
}

#[test]
fn a_signal_gives_the_lines_back_and_the_same_command_goes_on() {
    let turno = Turno::without_schema();
    let (log, go) = (turno.path("log"), turno.path("go"));
    let (show_log, show_go) = (log.display(), go.display());
    // Without the file it runs until it is told to stop, and then exits with 0 all the same.
    let script = format!(
        "read l; echo $l $$ >> {show_log}; trap 'exit 0' TERM; [ -e {show_go} ] || sleep 1000 & wait"
    );
    for (name, number, status) in [("INT", Signal::INT, 130), ("TERM", Signal::TERM, 143)] {
        let args = ["run", "--json", "--name", name, "-j", "2", "--", "sh", "-c", &script];
        let mut child = turno.start(&args);
        child.stdin.take().unwrap().write_all(b"a\nb\nc\n").unwrap();
        until("two lines are at work", || lines(&log).len() == 2);
        signal(child.id(), number);
        let answer = child.answer();
        assert_eq!(answer.status, Some(status), "{answer:?}");
        counts(&answer.err, [("succeeded", 0), ("dead", 0), ("retries", 0), ("cancelled", 0)]);
        for line in lines(&log) {
            assert!(!is_alive(line.split(' ').nth(1).unwrap()));
        }
        std::fs::write(&go, "").unwrap();
        let again = turno.feed(&args, b"a\nb\nc\n");
        assert_eq!(again.status, Some(0), "{again:?}");
        counts(&again.err, [("succeeded", 3), ("done_before", 0), ("dead", 0), ("retries", 0)]);
        std::fs::remove_file(&go).unwrap();
        std::fs::remove_file(&log).unwrap();
    }
}

#[test]
fn a_second_signal_stops_at_once() {
    let turno = Turno::without_schema();
    let log = turno.path("log");
    let script =
        format!("trap 'echo told >> {0}' TERM; echo $$ >> {0}; while :; do sleep 0.05; done", log.display());
    let mut child = turno.start(&["run", "--json", "--kill-after", "1h", "--", "sh", "-c", &script]);
    // Standard input stays open: a signal ends a run that waits for more, too.
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"a\n").unwrap();
    until("the line is at work", || lines(&log).len() == 1);
    signal(child.id(), Signal::TERM);
    until("the command is told", || lines(&log).len() == 2);
    stdin.write_all(b"b\n").unwrap();
    signal(child.id(), Signal::INT);
    let answer = child.answer();
    assert_eq!(answer.status, Some(143), "{answer:?}");
    until("its command is killed", || !is_alive(&lines(&log)[0]));
    assert_eq!(lines(&log)[1..], ["told"], "no further line is begun");
}

#[test]
fn a_line_cut_off_by_a_crash_in_its_last_attempt_runs_again() {
    let turno = Turno::without_schema();
    let (log, go) = (turno.path("log"), turno.path("go"));
    let (show_log, show_go) = (log.display(), go.display());
    let script = format!("echo $$ $PPID >> {show_log}; [ -e {show_go} ] || sleep 1000");
    let args = ["run", "--json", "--max-attempts", "1", "--lease", "500ms", "--", "sh", "-c", &script];
    let mut child = turno.start(&args);
    child.stdin.take().unwrap().write_all(b"a\n").unwrap();
    until("the line is at work", || lines(&log).len() == 1);
    signal(child.id(), Signal::KILL);
    child.wait().unwrap();
    let first = lines(&log)[0].split(' ').next().unwrap().to_owned();
    until("its command is gone", || !is_alive(&first));
    std::fs::write(&go, "").unwrap();
    let again = turno.feed(&args, b"a\n");
    assert_eq!((again.status, lines(&log).len()), (Some(0), 2), "{again:?}");
    counts(&again.err, [("lines", 1), ("succeeded", 1), ("dead", 0), ("done_before", 0)]);
}

#[test]
fn a_wrong_row_is_named_and_what_came_before_is_worked() {
    let turno = Turno::without_schema();
    // The first row is enqueued by itself, since the second comes only once the first is done.
    let done = turno.path("done");
    let script = format!("cat; : > {}", done.display());
    let mut child = turno.start(&["run", "-q", "--ndjson", "--", "sh", "-c", &script]);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"payload\":1}\n").unwrap();
    until("the first row is done", || done.exists());
    stdin.write_all(b"{\"payload\":2,\"prio\":1}\n").unwrap();
    drop(stdin);
    let answer = child.answer();
    assert_eq!((answer.status, answer.out.as_str()), (Some(2), "1\n"), "{answer:?}");
    let error = answer.err.lines().next().unwrap();
    assert!(
        error.contains("line 2") && error.contains("`prio`") && error.contains("lines 1 to 1"),
        "{error}"
    );
}

#[test]
fn a_run_that_cannot_begin_writes_nothing() {
    let turno = Turno::without_schema();
    let table: [(&[&str], &str); 6] = [
        (&["run", "--"], "CMD"),
        (&["run", "--", "no-such-command"], "no-such-command"),
        (&["run", "--lease", "1ms", "--", "cat"], "--lease"),
        (&["run", "--name", "", "-j", "0", "--", "cat"], "0"),
        (&["run", "--timeout", "5", "--", "cat"], "--timeout"),
        (&["run", "--name", "a\nb", "--", "cat"], "control character"),
    ];
    for (args, why) in table {
        let answer = turno.feed(args, b"a\n");
        assert_eq!(answer.status, Some(2), "{args:?}: {answer:?}");
        assert!(answer.err.contains(why), "{args:?}: {answer:?}");
        assert!(!turno.db().exists(), "{args:?}");
    }
}

#[test]
fn a_closed_standard_output_stops_the_run_and_loses_nothing() {
    let turno = Turno::without_schema();
    let mut child = turno.start(&["run", "-q", "-j", "1", "--", "cat"]);
    drop(child.stdout.take());
    child.stdin.take().unwrap().write_all(b"a\nb\n").unwrap();
    let answer = child.answer();
    assert_eq!(answer.status, Some(74), "{answer:?}");
    let again = turno.feed(&["run", "-q", "-j", "1", "--", "cat"], b"a\nb\n");
    let mut out: Vec<&str> = again.out.lines().collect();
    out.sort_unstable();
    assert_eq!((again.status, out), (Some(0), vec!["a", "b"]), "{again:?}");
}

#[test]
fn lines_that_a_killed_run_left_are_forgotten_too() {
    let turno = Turno::without_schema();
    let log = turno.path("log");
    let script = format!("echo x >> {}; sleep 1000", log.display());
    let mut child = turno.start(&["run", "-q", "-j", "2", "--lease", "500ms", "--", "sh", "-c", &script]);
    child.stdin.take().unwrap().write_all(b"a\nb\nc\nd\n").unwrap();
    until("two lines are at work", || lines(&log).len() == 2);
    signal(child.id(), Signal::KILL);
    child.wait().unwrap();
    assert_eq!(turno.json(&["run", "--forget"])[0]["forgotten"], 4);
    assert!(turno.json(&["job", "list"]).is_empty());
}

#[test]
fn forgetting_a_run_that_is_at_work_is_refused() {
    let turno = Turno::without_schema();
    let (log, stop) = (turno.path("log"), turno.path("stop"));
    let script = format!("echo x >> {}; until [ -e {} ]; do sleep 0.05; done", log.display(), stop.display());
    let mut child = turno.start(&["run", "-q", "--lease", "1s", "--", "sh", "-c", &script]);
    child.stdin.take().unwrap().write_all(b"a\n").unwrap();
    until("the line is at work", || lines(&log).len() == 1);
    let refused = turno.call(&["run", "--forget"]);
    assert_eq!(refused.status, Some(3), "{refused:?}");
    assert!(refused.error_line().contains("under a lease"));
    std::fs::write(&stop, "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(turno.call(&["run", "--forget"]).status, Some(0));
}

#[test]
fn a_stopped_run_loses_its_commands_with_its_leases_and_another_run_goes_on() {
    let turno = Turno::without_schema();
    let (log, go) = (turno.path("log"), turno.path("go"));
    let script = format!("echo $$ >> {}; until [ -e {} ]; do sleep 0.05; done", log.display(), go.display());
    let args =
        ["run", "--json", "-j", "1", "--lease", "1s", "--retry-base", "10ms", "--", "sh", "-c", &script];
    let mut stopped = turno.start(&args);
    stopped.stdin.take().unwrap().write_all(b"a\n").unwrap();
    until("the line is at work", || lines(&log).len() == 1);
    signal(stopped.id(), Signal::STOP);
    // Nobody but the guard is there to end it: the run that would is stopped.
    until("its command is killed", || !is_alive(&lines(&log)[0]));
    std::fs::write(&go, "").unwrap();
    let other = turno.feed(&args, b"a\n");
    assert_eq!((other.status, lines(&log).len()), (Some(0), 2), "{other:?}");
    signal(stopped.id(), Signal::CONT);
    let answer = stopped.answer();
    assert_eq!((answer.status, lines(&log).len()), (Some(0), 2), "{answer:?}");
    counts(&answer.err, [("lines", 1), ("succeeded", 0), ("dead", 0), ("retries", 0)]);
}

#[test]
fn a_command_that_outlives_many_leases_is_left_alone() {
    let turno = Turno::without_schema();
    let log = turno.path("log");
    // Four leases, in a shell that a signal would end.
    let script = format!("echo start >> {0}; sleep 2; echo end >> {0}", log.display());
    let answer = turno.feed(&["run", "-q", "--lease", "500ms", "--", "sh", "-c", &script], b"a\n");
    assert_eq!(
        (answer.status, lines(&log)),
        (Some(0), vec!["start".to_owned(), "end".to_owned()]),
        "{answer:?}"
    );
}
