//! The thread that writes. It puts the operations that wait into one transaction, each behind a savepoint of its own, and
//! answers after the commit. It waits for other processes in its own fair way, heartbeats first, and gives way to them
//! between transactions. It refuses to answer success before the commit.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use turno_contract::{Error, ErrorKind, Result};

use crate::bell::Bell;
use crate::connection::{self, Purpose};
use crate::error::{of_commit, of_engine};
use crate::lanes::{Class, Outcome, Task, no_file};
use crate::options::Place;

/// Most operations in one transaction, and the time after which no more are added: heartbeats and other processes wait
/// for the commit.
const GROUP_OPERATIONS_MAX: usize = 256;
const GROUP_TIME: Duration = Duration::from_millis(20);
/// Longest pause between two tries for the write lock.
const TRY_AGAIN_MAX: Duration = Duration::from_millis(40);
/// Without any sign of other writers: how long this thread writes before it leaves a gap, since a process that never got
/// its turn leaves no sign.
const GAP_EVERY: Duration = Duration::from_millis(50);
/// The shortest gap that others can use, and the longest that is left to them.
const GAP: Duration = Duration::from_millis(1);
const GAP_MAX: Duration = Duration::from_millis(5);
/// How long the sign of another writer counts.
const OTHERS_REMEMBERED: Duration = Duration::from_secs(2);

pub(crate) struct Writer {
    place: Place,
    inbox: Receiver<Box<dyn Task>>,
    bell: Arc<Bell>,
    connection: Option<Connection>,
    heartbeats: VecDeque<Box<dyn Task>>,
    others: VecDeque<Box<dyn Task>>,
    manners: Manners,
}

impl Writer {
    pub(crate) fn new(place: Place, inbox: Receiver<Box<dyn Task>>, bell: Arc<Bell>) -> Self {
        Writer {
            place,
            inbox,
            bell,
            connection: None,
            heartbeats: VecDeque::new(),
            others: VecDeque::new(),
            manners: Manners::new(),
        }
    }

    /// Opens the database if it is there, says how that went, and serves until nobody can send any more.
    pub(crate) fn run(mut self, opened: impl FnOnce(Result<()>)) {
        let result = self.connect(self.place == Place::Memory);
        let failed = result.is_err();
        opened(result);
        if failed {
            return;
        }
        while self.wait_for_work() {
            self.serve();
        }
    }

    fn connect(&mut self, create: bool) -> Result<()> {
        let exists = match &self.place {
            Place::Memory => true,
            Place::File(path) => path.exists(),
        };
        if self.connection.is_none() && (exists || create) {
            self.connection = Some(connection::open(&self.place, Purpose::Write, create)?);
        }
        Ok(())
    }

    /// Waits until there is something to do; `false` when there never will be.
    fn wait_for_work(&mut self) -> bool {
        if self.is_idle() {
            match self.inbox.recv() {
                Ok(task) => self.sort_in(task),
                Err(_) => return false,
            }
        }
        self.take_in();
        true
    }

    fn is_idle(&self) -> bool {
        self.heartbeats.is_empty() && self.others.is_empty()
    }

    fn sort_in(&mut self, task: Box<dyn Task>) {
        match task.class() {
            Class::Heartbeat => self.heartbeats.push_back(task),
            _ => self.others.push_back(task),
        }
    }

    fn take_in(&mut self) {
        loop {
            match self.inbox.try_recv() {
                Ok(task) => self.sort_in(task),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }

    fn next(&mut self) -> Option<Box<dyn Task>> {
        self.take_in();
        loop {
            let task = self.heartbeats.pop_front().or_else(|| self.others.pop_front())?;
            if !task.abandoned() {
                return Some(task);
            }
        }
    }

    /// One transaction, from getting the right to write to the answers.
    fn serve(&mut self) {
        let create = self.others.iter().any(|task| task.class() == Class::Migrate);
        if let Err(error) = self.connect(create) {
            return self.refuse_all(|| copy(&error));
        }
        let Some(connection) = self.connection.take() else {
            return self.refuse_all(no_file);
        };
        self.manners.leave_gap();
        if self.begin(&connection) {
            self.group(&connection);
            self.manners.ended();
        }
        self.connection = Some(connection);
    }

    fn refuse_all(&mut self, error: impl Fn() -> Error) {
        for task in self.heartbeats.drain(..).chain(self.others.drain(..)) {
            task.answer(Some(error()));
        }
    }

    /// Gets the right to write. Whose deadline passes meanwhile is told `Busy`; `false` if nobody is left.
    fn begin(&mut self, connection: &Connection) -> bool {
        let mut pause = Duration::from_millis(1);
        loop {
            let error = match connection.execute_batch("BEGIN IMMEDIATE") {
                Ok(()) => {
                    self.manners.begun(connection);
                    return true;
                }
                Err(error) => of_engine(error),
            };
            self.take_in();
            if error.kind() != ErrorKind::Busy {
                self.refuse_all(|| copy(&error));
                return false;
            }
            self.manners.saw_others();
            self.give_up_late(&error);
            if self.is_idle() {
                return false;
            }
            // Jitter, so that processes that wait for the same lock do not try in step.
            match self.inbox.recv_timeout(pause.mul_f64(0.5 + fastrand::f64())) {
                Ok(task) => self.sort_in(task),
                Err(RecvTimeoutError::Timeout) => pause = (pause * 2).min(TRY_AGAIN_MAX),
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(pause),
            }
        }
    }

    fn give_up_late(&mut self, busy: &Error) {
        let now = Instant::now();
        for queue in [&mut self.heartbeats, &mut self.others] {
            let tasks = std::mem::take(queue);
            for task in tasks {
                if task.deadline() <= now {
                    task.answer(Some(copy(busy)));
                } else {
                    queue.push_back(task);
                }
            }
        }
    }

    /// Runs what waits, commits and answers.
    fn group(&mut self, connection: &Connection) {
        let begun = Instant::now();
        let mut tasks = Vec::new();
        let mut rings = false;
        while tasks.len() < GROUP_OPERATIONS_MAX && (tasks.is_empty() || begun.elapsed() < GROUP_TIME) {
            let Some(mut task) = self.next() else { break };
            let outcome = run_behind_savepoint(connection, task.as_mut());
            tasks.push(task);
            match outcome {
                Ok(Outcome::Done { rings: true }) => rings = true,
                Ok(_) => {}
                // The engine gave up the whole transaction, with what the others did in it.
                Err(error) => return self.one_by_one(connection, tasks, error),
            }
        }
        if let Err(error) = connection.execute_batch("COMMIT").map_err(of_commit) {
            roll_back(connection);
            if error.outcome_is_unknown() {
                return answer_all(tasks, Some(error));
            }
            return self.one_by_one(connection, tasks, error);
        }
        answer_all(tasks, None);
        if rings {
            self.bell.ring();
        }
    }

    /// After a transaction was lost: each operation again, in a transaction of its own, so that one that can never
    /// succeed (a full disk) does not take the others with it.
    fn one_by_one(&mut self, connection: &Connection, tasks: Vec<Box<dyn Task>>, error: Error) {
        roll_back(connection);
        if tasks.len() == 1 {
            return answer_all(tasks, Some(error));
        }
        for mut task in tasks {
            let result = connection.execute_batch("BEGIN IMMEDIATE").map_err(of_engine).and_then(|()| {
                let outcome = run_behind_savepoint(connection, task.as_mut())?;
                connection.execute_batch("COMMIT").map_err(of_commit)?;
                Ok(outcome)
            });
            roll_back(connection);
            if result.as_ref().is_ok_and(|outcome| *outcome == Outcome::Done { rings: true }) {
                self.bell.ring();
            }
            task.answer(result.err());
        }
    }
}

/// Runs one operation; if it fails, only its own changes are undone. An error means that the transaction is lost.
fn run_behind_savepoint(connection: &Connection, task: &mut dyn Task) -> Result<Outcome> {
    connection.execute_batch("SAVEPOINT turno_operation").map_err(of_engine)?;
    let outcome = task.run(connection);
    if connection.is_autocommit() {
        return Err(Error::new(
            ErrorKind::Unavailable,
            "the database gave up the transaction; nothing was written",
        ));
    }
    if outcome == Outcome::Failed {
        connection.execute_batch("ROLLBACK TO turno_operation").map_err(of_engine)?;
    }
    connection.execute_batch("RELEASE turno_operation").map_err(of_engine)?;
    Ok(outcome)
}

fn roll_back(connection: &Connection) {
    if !connection.is_autocommit() {
        // If even this fails, the next BEGIN says so.
        let _ = connection.execute_batch("ROLLBACK");
    }
}

fn answer_all(tasks: Vec<Box<dyn Task>>, failure: Option<Error>) {
    for task in tasks {
        task.answer(failure.as_ref().map(copy));
    }
}

/// One error for several operations; only the first one could have the source.
fn copy(error: &Error) -> Error {
    let copy = Error::new(error.kind(), error.message());
    if error.outcome_is_unknown() { copy.with_outcome_unknown() } else { copy }
}

/// When to give way: processes that wait for the lock look for it from time to time, and find it only in a gap.
struct Manners {
    others_seen: Option<Instant>,
    data_version: i64,
    begun: Instant,
    ended: Instant,
    /// How long the last transaction held the lock.
    held: Duration,
    /// When the lock was last free for [`GAP`].
    last_gap: Instant,
}

impl Manners {
    fn new() -> Self {
        let now = Instant::now();
        Manners {
            others_seen: None,
            data_version: 0,
            begun: now,
            ended: now,
            held: Duration::ZERO,
            last_gap: now,
        }
    }

    fn saw_others(&mut self) {
        self.others_seen = Some(Instant::now());
    }

    /// The data version changes when another connection committed since we last looked.
    fn begun(&mut self, connection: &Connection) {
        self.begun = Instant::now();
        let version = connection.query_row("PRAGMA data_version", [], |row| row.get(0)).unwrap_or(0);
        if self.data_version != 0 && version != self.data_version {
            self.saw_others();
        }
        self.data_version = version;
    }

    fn ended(&mut self) {
        self.ended = Instant::now();
        self.held = self.ended - self.begun;
    }

    /// Called before a transaction. Costs nothing if the lock has been free for long enough by itself.
    fn leave_gap(&mut self) {
        let others = self.others_seen.is_some_and(|seen| seen.elapsed() < OTHERS_REMEMBERED);
        let gap = if others {
            (self.held / 2).clamp(GAP, GAP_MAX)
        } else if self.last_gap.elapsed() > GAP_EVERY {
            GAP
        } else {
            Duration::ZERO
        };
        let free = self.ended.elapsed();
        if free < gap {
            std::thread::sleep(gap - free);
        }
        if free.max(gap) >= GAP {
            self.last_gap = Instant::now();
        }
    }
}
