//! The promise of `turno run`: 2,000 lines, 20 random SIGKILLs, and from the *starts* of the command it is shown that
//! no line runs twice at the same time, that every line ends done exactly once, that a line known to be done is not
//! run again, and that nothing of a killed run stays alive.
//!
//! The command is this very program (hence no test harness). Each start takes a lock on a file of its line, which the
//! kernel holds as long as the command or anything it started lives; a start that finds the lock taken is an overlap.
//! `TURNO_KILL_SEED` repeats a run's choices.

mod common;

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::{Running, Turno, is_alive, lines, signal, until};
use rustix::fs::FlockOperation;
use rustix::io::FdFlags;
use rustix::process::Signal;
use rustix::time::ClockId;

const LINES: usize = 2000;
const KILLS: usize = 20;
const JOBS: usize = 4;
/// Set for the command and for what it starts: the directory of the log and the locks.
const DIRECTORY: &str = "TURNO_KILL_DIRECTORY";

fn main() -> ExitCode {
    match (std::env::var_os(DIRECTORY), std::env::args().nth(1).as_deref()) {
        // Started by the command: holds the line's lock until somebody kills it.
        (Some(_), Some("linger")) => loop {
            std::thread::park();
        },
        (Some(directory), _) => {
            command(Path::new(&directory)).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
        }
        // What asks a test program for its tests learns that there is one.
        (None, Some("--list")) => {
            println!("twenty_kills: test");
            ExitCode::SUCCESS
        }
        (None, _) => {
            twenty_kills();
            println!("test twenty_kills ... ok");
            ExitCode::SUCCESS
        }
    }
}

/// What runs for a line: lock, say that it starts, work for some milliseconds, say that it ends.
fn command(directory: &Path) -> io::Result<()> {
    let mut line = String::new();
    io::stdin().read_to_string(&mut line)?;
    let line = line.trim_end();
    let number: u64 = line.trim_start_matches("line ").parse().map_err(io::Error::other)?;
    let lock = File::create(directory.join(format!("lock{number}")))?;
    // Whatever this process starts holds the lock, too.
    rustix::io::fcntl_setfd(&lock, FdFlags::empty())?;
    if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return say(directory, &format!("overlap {number} {} {}", std::process::id(), now_ns()));
    }
    // Every tenth line leaves a process behind that ignores its parent's end.
    let lingering = match number % 10 {
        0 => Command::new(std::env::current_exe()?).arg("linger").stdin(Stdio::null()).spawn()?.id(),
        _ => std::process::id(),
    };
    say(directory, &format!("start {number} {} {} {lingering}", std::process::id(), now_ns()))?;
    std::thread::park_timeout(Duration::from_millis(1 + number % 20));
    say(directory, &format!("end {number} {} {} {lingering}", std::process::id(), now_ns()))
}

fn say(directory: &Path, text: &str) -> io::Result<()> {
    // One write of a short line in append mode is never torn.
    let mut log = OpenOptions::new().create(true).append(true).open(directory.join("log"))?;
    log.write_all(format!("{text}\n").as_bytes())
}

fn now_ns() -> i128 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

/// One line of the log.
#[derive(Debug)]
struct Entry {
    word: String,
    number: usize,
    pids: [String; 2],
}

fn read_log(path: &Path) -> Vec<Entry> {
    let parse = |line: String| {
        let fields: Vec<&str> = line.split(' ').collect();
        let pid = |n: usize| fields.get(n).unwrap_or(&"").to_string();
        Entry { word: fields[0].to_owned(), number: fields[1].parse().expect(&line), pids: [pid(2), pid(4)] }
    };
    lines(path).into_iter().map(parse).collect()
}

struct Test {
    turno: Turno,
    log: PathBuf,
    input: PathBuf,
    random: u64,
}

impl Test {
    fn new(seed: u64) -> Self {
        let turno = Turno::without_schema();
        let (log, input) = (turno.path("log"), turno.path("input"));
        let text: String = (0..LINES).map(|n| format!("line {n}\n")).collect();
        std::fs::write(&input, text).unwrap();
        Test { turno, log, input, random: seed }
    }

    fn start(&self) -> Running {
        let mut command = self.turno.command();
        command.args(["run", "--json", "--name", "kill", "--lease", "1s", "--retry-base", "50ms"]);
        command.args(["--jobs", &JOBS.to_string(), "--"]).arg(std::env::current_exe().unwrap());
        command.env(DIRECTORY, self.turno.path("")).stdin(File::open(&self.input).unwrap());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        Running::start(command)
    }

    /// A xorshift: the choices need to be repeatable, not good.
    fn below(&mut self, n: u64) -> u64 {
        for shift in [13, -7, 17] {
            let x = self.random;
            self.random ^= if shift > 0 { x << shift } else { x >> -shift };
        }
        self.random % n
    }

    fn starts(&self) -> usize {
        read_log(&self.log).iter().filter(|entry| entry.word == "start").count()
    }

    /// The numbers of the lines that the records call done.
    fn done(&self) -> Vec<usize> {
        let (mut done, mut before) = (Vec::new(), i64::MAX.to_string());
        loop {
            let args = ["job", "list", "--queue", "run:kill", "--state", "succeeded", "--show-payload"];
            let page = self.turno.json(&[&args[..], &["--limit", "1000", "--before", &before]].concat());
            let Some(last) = page.last() else { return done };
            before = last["id"].as_str().unwrap().to_owned();
            let number = |line: &str| line.trim_start_matches("line ").parse::<usize>().unwrap();
            done.extend(page.iter().map(|job| number(job["payload"]["line"].as_str().unwrap())));
        }
    }
}

fn twenty_kills() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = std::env::var("TURNO_KILL_SEED").map_or(now | 1, |seed| seed.parse().unwrap());
    println!("seed: TURNO_KILL_SEED={seed}");
    let (mut test, began) = (Test::new(seed), Instant::now());
    // Done lines as the records had them after a kill, with the length of the log then.
    let mut known_done: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut run = test.start();
    for kill in 0..KILLS {
        // From "before anything started" to some way in, but never so far that the last run has nothing to do.
        let more = test.below(120) as usize;
        let goal = (test.starts() + more).min(LINES - 300);
        until("the run makes progress", || test.starts() >= goal || run.try_wait().unwrap().is_some());
        assert_eq!(run.try_wait().unwrap(), None, "the run has ended before kill {kill}");
        signal(run.id(), Signal::KILL);
        run.wait().unwrap();
        if kill % 2 == 0 {
            let length = settled_log(&test.log);
            known_done.push((length, test.done()));
        }
        // Every other time the next run begins while the killed one's children may still be dying.
        run = test.start();
    }
    let answer = run.answer();
    let took = began.elapsed();
    println!("{} starts in {took:.1?}; {}", test.starts(), answer.err.lines().last().unwrap_or_default());
    assert_eq!(answer.status, Some(0), "{answer:?}");
    let summary: serde_json::Value = serde_json::from_str(answer.err.lines().last().unwrap()).unwrap();
    let done = summary["succeeded"].as_u64().unwrap() + summary["done_before"].as_u64().unwrap();
    assert_eq!((summary["lines"].as_u64(), done), (Some(LINES as u64), LINES as u64), "{summary}");
    check(&test, &known_done);
}

/// The length of the log once every command that had started is gone.
fn settled_log(log: &Path) -> usize {
    let pids: HashSet<String> = read_log(log).into_iter().flat_map(|entry| entry.pids).collect();
    until("no child of the killed run is alive", || !pids.iter().any(|pid| is_alive(pid)));
    read_log(log).len()
}

fn check(test: &Test, known_done: &[(usize, Vec<usize>)]) {
    let log = read_log(&test.log);
    let overlaps: Vec<&Entry> = log.iter().filter(|entry| entry.word == "overlap").collect();
    assert!(overlaps.is_empty(), "two starts of one line at the same time: {overlaps:?}");

    // The log alone says the same: an end belongs to the last start of its line.
    let mut last_start: HashMap<usize, &str> = HashMap::new();
    let (mut starts, mut ends) = (0, HashSet::new());
    for entry in &log {
        if entry.word == "start" {
            starts += 1;
            last_start.insert(entry.number, &entry.pids[0]);
        } else {
            assert_eq!(last_start.get(&entry.number), Some(&entry.pids[0].as_str()), "{entry:?}");
            ends.insert(entry.number);
        }
    }
    assert_eq!(ends.len(), LINES, "lines whose command ended");

    let mut done = test.done();
    done.sort_unstable();
    assert_eq!(done, (0..LINES).collect::<Vec<_>>(), "lines done in the records, each once");
    for (length, done) in known_done {
        let done: HashSet<usize> = done.iter().copied().collect();
        let again = log[*length..].iter().find(|entry| entry.word == "start" && done.contains(&entry.number));
        assert!(again.is_none(), "a done line was run again: {again:?}");
    }
    // A kill costs the lines at work, and those that had ended but whose verdict was still to be written.
    assert!(starts <= LINES + KILLS * JOBS * 3, "{starts} starts");
    assert!(starts >= LINES);

    settled_log(&test.log);
    assert!(test.turno.call(&["audit"]).status == Some(0));
}
