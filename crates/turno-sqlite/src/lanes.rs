//! The two threads of a backend, and how operations get to them and back. One thread writes, on the one connection that
//! ever writes; the other reads. Refuses to run anything on the caller's own thread, which may be a runtime's.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;
use turno_contract::{Error, ErrorKind, Result};

use crate::bell::Bell;
use crate::error::NO_SCHEMA;
use crate::options::Place;
use crate::reader::Reader;
use crate::work::Work;
use crate::writer::Writer;

/// How an operation is to be treated in the queue of the thread that runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Goes before all others that wait.
    Heartbeat,
    /// Takes its turn.
    Ordinary,
    /// Takes its turn, may create the file, and needs no schema.
    Migrate,
}

/// One operation on its way through a thread.
pub(crate) trait Task: Send {
    fn class(&self) -> Class;
    /// Until when it is tried to get the right to write.
    fn deadline(&self) -> Instant;
    /// Whether nobody waits for its answer any more.
    fn abandoned(&self) -> bool;
    /// Runs it inside a transaction and keeps the answer; may be called again after a rollback.
    fn run(&mut self, connection: &Connection) -> Outcome;
    /// Sends the answer; a failure takes the place of a success.
    fn answer(self: Box<Self>, failure: Option<Error>);
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done { rings: bool },
    Failed,
}

struct Operation<T, Body> {
    class: Class,
    deadline: Instant,
    body: Body,
    result: Option<Result<T>>,
    sender: oneshot::Sender<Result<T>>,
}

impl<T, Body> Task for Operation<T, Body>
where
    T: Send + 'static,
    Body: Fn(&Work) -> Result<T> + Send + 'static,
{
    fn class(&self) -> Class {
        self.class
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn abandoned(&self) -> bool {
        self.sender.is_closed()
    }

    fn run(&mut self, connection: &Connection) -> Outcome {
        let run = || {
            let work = match self.class {
                Class::Migrate => Work::without_schema(connection)?,
                _ => Work::new(connection)?,
            };
            Ok(((self.body)(&work)?, work.rings()))
        };
        // A panic here is a bug, but must not take the thread and with it every later operation.
        let answer = catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "the operation panicked")));
        match answer {
            Ok((value, rings)) => {
                self.result = Some(Ok(value));
                Outcome::Done { rings }
            }
            Err(error) => {
                self.result = Some(Err(error));
                Outcome::Failed
            }
        }
    }

    fn answer(self: Box<Self>, failure: Option<Error>) {
        let answer = match (self.result, failure) {
            (Some(Err(error)), _) | (_, Some(error)) => Err(error),
            (Some(Ok(value)), None) => Ok(value),
            (None, None) => Err(Error::new(ErrorKind::Internal, "the operation was not run")),
        };
        // Whoever asked may have stopped waiting.
        let _ = self.sender.send(answer);
    }
}

/// The way to both threads. They end when this is dropped.
pub(crate) struct Lanes {
    writer: Sender<Box<dyn Task>>,
    reader: Sender<Box<dyn Task>>,
    busy_timeout: Duration,
}

impl Lanes {
    /// Opens the database on both threads, if its file is there.
    pub(crate) async fn open(place: Place, busy_timeout: Duration, bell: Arc<Bell>) -> Result<Self> {
        let (writer, inbox) = channel();
        let in_memory = place == Place::Memory;
        let (opened, answer) = oneshot::channel();
        let thread = Writer::new(place.clone(), inbox, bell.clone());
        spawn("turno-sqlite-write", move || thread.run(|result| drop(opened.send(result))))?;
        answer.await.unwrap_or_else(|_| Err(thread_is_gone()))?;
        if in_memory {
            // A database in memory is visible to its own connection only, so the writer also reads.
            return Ok(Lanes { reader: writer.clone(), writer, busy_timeout });
        }
        // Only now, so that two connections do not both switch the file to the write-ahead log.
        let (reader, inbox) = channel();
        let (opened, answer) = oneshot::channel();
        let thread = Reader::new(place, inbox, bell);
        spawn("turno-sqlite-read", move || thread.run(|result| drop(opened.send(result))))?;
        answer.await.unwrap_or_else(|_| Err(thread_is_gone()))?;
        Ok(Lanes { writer, reader, busy_timeout })
    }

    /// Runs an operation on the writing thread, in a transaction that is committed before the answer comes.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        class: Class,
        body: impl Fn(&Work) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        send(&self.writer, class, self.busy_timeout, body).await
    }

    /// Runs an operation that only reads, on one snapshot.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        body: impl Fn(&Work) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        send(&self.reader, Class::Ordinary, self.busy_timeout, body).await
    }
}

async fn send<T: Send + 'static>(
    lane: &Sender<Box<dyn Task>>,
    class: Class,
    busy_timeout: Duration,
    body: impl Fn(&Work) -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = oneshot::channel();
    let deadline = Instant::now() + busy_timeout;
    let operation = Operation { class, deadline, body, result: None, sender };
    lane.send(Box::new(operation)).map_err(|_| thread_is_gone())?;
    receiver.await.unwrap_or_else(|_| Err(thread_is_gone().with_outcome_unknown()))
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    match std::thread::Builder::new().name(name.to_owned()).spawn(body) {
        Ok(_) => Ok(()),
        Err(error) => {
            let message = format!("no thread for the database: {error}");
            Err(Error::new(ErrorKind::Unavailable, message).with_source(error))
        }
    }
}

fn thread_is_gone() -> Error {
    Error::new(ErrorKind::Unavailable, "the database thread has ended")
}

/// What an operation is told when there is no file.
pub(crate) fn no_file() -> Error {
    Error::new(ErrorKind::VersionMismatch, NO_SCHEMA)
}
