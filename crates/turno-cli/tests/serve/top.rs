//! `turno top`, as text and in a real terminal, and `turno job show --follow`.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;

use crate::cases;
use crate::common::{Running, until};
use crate::rig::Rig;

cases![
    one_picture_of_the_queues_is_printed,
    the_screen_turns_its_pages_and_gives_the_terminal_back,
    a_followed_job_is_told_change_by_change,
];

fn one_picture_of_the_queues_is_printed(rig: &Rig) {
    rig.enqueue("first", "k", &[]);
    rig.enqueue("second", "k", &[]);
    rig.enqueue("later", "k", &["--run-at", "9990-01-01T00:00:00Z"]);
    let answer = rig.call(&["top", "--once"]);
    assert_eq!(answer.status, Some(0), "{answer:?}");
    let lines: Vec<&str> = answer.out.lines().filter(|line| !line.is_empty()).collect();
    assert!(
        lines[0].contains("3 queues  0 dead/hour  0 expired  0 running  2 ready  1 scheduled"),
        "{answer:?}"
    );
    let firsts: Vec<&str> = lines[1..].iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(firsts, ["QUEUE", "first", "second", "later"], "{answer:?}");
    let only = rig.call(&["top", "--once", "--queue", "later"]);
    assert!(only.out.contains("later") && !only.out.contains("first"), "{only:?}");
    let no_terminal = rig.call(&["top"]);
    assert_eq!(no_terminal.status, Some(2), "{no_terminal:?}");
    assert!(no_terminal.error_line().contains("--once"), "{no_terminal:?}");
}

fn the_screen_turns_its_pages_and_gives_the_terminal_back(rig: &Rig) {
    rig.enqueue("mail", "k", &[]);
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let size = Winsize { ws_row: 30, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&master, size).unwrap();
    let path = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let slave = || File::options().read(true).write(true).open(&path).unwrap();
    let mut command = rig.command(&["top", "--every", "200ms"]);
    command.env("TERM", "xterm-256color").stdin(slave()).stdout(slave()).stderr(Stdio::null());
    let running = Running::start(command);
    let mut master = File::from(master);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let reader = {
        let (mut master, seen) = (master.try_clone().unwrap(), Arc::clone(&seen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The other side is gone when the program has ended.
            while let Ok(n) = master.read(&mut bytes) {
                if n == 0 {
                    break;
                }
                seen.lock().unwrap().extend_from_slice(&bytes[..n]);
            }
        })
    };
    let shows = |text: &str| String::from_utf8_lossy(&seen.lock().unwrap()).contains(text);
    until("the queues are shown", || shows("OLDEST") && shows("mail"));
    master.write_all(b"2").unwrap();
    // The screen is drawn cell by cell: only a word is sure to come in one piece.
    until("that no job is running is shown", || shows("running."));
    master.write_all(b"p").unwrap();
    until("the picture is held", || shows("HELD"));
    master.write_all(b"q").unwrap();
    assert_eq!(running.answer().status, Some(0));
    until("the terminal is given back", || shows("\u{1b}[?1049l"));
    drop(master);
    reader.join().unwrap();
}

fn a_followed_job_is_told_change_by_change(rig: &Rig) {
    let server = rig.serve(&[]);
    let id = rig.enqueue("q", "k", &[]);
    let mut command = rig.command(&["job", "show", "--follow", "--json", &id]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let following = Running::start(command);
    let fail = |attempt: u32, how: serde_json::Value| {
        let job = server.claim("q");
        assert_eq!(job["attempt"], attempt);
        let mut settle = json!({"id": id, "attempt": attempt, "token": job["token"], "error": "why"});
        settle.as_object_mut().unwrap().extend(how.as_object().unwrap().clone());
        assert_eq!(server.post("/api/v1/fail", &json!({"worker": "w", "jobs": [settle]})).status, 200);
    };
    fail(1, json!({"retry_in_ms": 0}));
    fail(2, json!({"never": true}));
    let answer = following.answer();
    assert_eq!(answer.status, Some(1), "{answer:?}");
    let documents = answer.documents();
    // Whatever was seen between, both attempts and the end are told.
    let attempts: Vec<_> = documents.iter().filter(|line| line.get("verb").is_some()).collect();
    assert_eq!(attempts.len(), 2, "{answer:?}");
    assert_eq!((&attempts[0]["attempt"], &attempts[1]["error"]), (&json!(1), &json!("why")));
    assert_eq!(documents.last().unwrap()["state"], "dead");
    let text = rig.call(&["job", "show", "--follow", &id]);
    assert!(text.out.contains("attempt 2 ended by fail: why") && text.out.contains("dead"), "{text:?}");
    assert_eq!(rig.call(&["job", "show", "--follow", "999999999"]).status, Some(3));
}
