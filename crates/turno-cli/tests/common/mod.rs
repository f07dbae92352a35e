//! The real binary on a SQLite file of its own.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a condition is waited for.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A directory with a database that only this test knows.
pub struct Turno {
    dir: tempfile::TempDir,
}

/// What a command answered.
#[derive(Debug)]
pub struct Answer {
    /// Its exit status.
    pub status: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Turno {
    /// A database with the schema.
    pub fn new() -> Self {
        let turno = Turno::without_schema();
        assert_eq!(turno.call(&["migrate"]).status, Some(0));
        turno
    }

    /// A directory without a database.
    pub fn without_schema() -> Self {
        Turno { dir: tempfile::tempdir().unwrap() }
    }

    /// A path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The database file.
    pub fn db(&self) -> PathBuf {
        self.path("jobs.db")
    }

    /// The binary, told which database.
    pub fn command(&self) -> Command {
        let mut command = bare();
        command.env("TURNO_URL", self.db()).current_dir(self.dir.path());
        command
    }

    /// Runs the binary without input.
    pub fn call(&self, args: &[&str]) -> Answer {
        self.feed(args, b"")
    }

    /// Runs the binary with this input.
    pub fn feed(&self, args: &[&str], input: &[u8]) -> Answer {
        let mut command = self.command();
        command.args(args);
        finish(command, input)
    }

    /// Runs the binary and reads its answer as one JSON document per line; it must succeed.
    pub fn json(&self, args: &[&str]) -> Vec<Value> {
        let answer = self.call(&[args, &["--json"]].concat());
        assert_eq!(answer.status, Some(0), "{args:?}: {answer:?}");
        answer.documents()
    }

    /// Enqueues a job and answers its id.
    pub fn enqueue(&self, queue: &str, args: &[&str]) -> String {
        let documents = self.json(&[&["enqueue", "--queue", queue, "--kind", "k"], args].concat());
        documents[0]["id"].as_str().unwrap().to_owned()
    }

    /// Changes rows behind turno's back, such as an age.
    pub fn sql(&self, statement: &str) {
        let connection = rusqlite::Connection::open(self.db()).unwrap();
        connection.busy_timeout(LIMIT).unwrap();
        connection.execute_batch(statement).unwrap();
    }

    /// The state of a job.
    pub fn state(&self, id: &str) -> String {
        self.json(&["job", "show", id])[0]["state"].as_str().unwrap().to_owned()
    }

    /// The binary with output to be read and input to be written.
    pub fn start(&self, args: &[&str]) -> Running {
        let mut command = self.command();
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::start(command)
    }
}

/// A running binary, which a test that fails does not leave behind.
pub struct Running(Option<Child>);

impl Running {
    /// Starts it.
    pub fn start(mut command: Command) -> Self {
        Running(Some(command.spawn().unwrap()))
    }

    /// Waits for its end.
    pub fn answer(mut self) -> Answer {
        self.0.take().unwrap().wait_with_output().unwrap().into()
    }
}

impl std::ops::Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().unwrap()
    }
}

impl std::ops::DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Answer {
    /// Standard output as JSON documents.
    pub fn documents(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    /// The only line of standard error.
    #[track_caller]
    pub fn error_line(&self) -> &str {
        let mut lines = self.err.lines();
        let line = lines.next().unwrap_or_default();
        assert_eq!(lines.next(), None, "one line: {}", self.err);
        assert!(!line.contains("Error {") && !line.contains("Some("), "a Debug form: {line}");
        line
    }
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Answer { status: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

/// The binary, told nothing.
pub fn bare() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_turno"));
    for name in ["TURNO_URL", "TURNO_LOG", "TRACEPARENT"] {
        command.env_remove(name);
    }
    command
}

/// Runs a command to its end with this input.
pub fn finish(mut command: Command, input: &[u8]) -> Answer {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
    // A command that refuses its arguments does not read its input.
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let answer = child.wait_with_output().unwrap().into();
    let _ = writer.join().unwrap();
    answer
}

/// Waits for a condition.
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let give_up_at = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < give_up_at, "waited {LIMIT:?} for: {what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// The lines of a file that other processes write; none if it is not there yet.
pub fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Sends a signal.
pub fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Whether a process is there and not a zombie.
pub fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
