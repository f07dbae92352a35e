//! The thread that reads, each operation on one snapshot. While somebody waits for jobs it also watches for what other
//! processes commit. It refuses to write.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use turno_contract::{ErrorKind, Result};

use crate::bell::Bell;
use crate::connection::{self, Purpose};
use crate::error::of_engine;
use crate::lanes::{Task, no_file};
use crate::operations::wait;
use crate::options::Place;
use crate::work::Work;

/// How often the database is asked whether another process committed. It costs no disk access.
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(crate) struct Reader {
    place: Place,
    inbox: Receiver<Box<dyn Task>>,
    bell: Arc<Bell>,
    connection: Option<Connection>,
    /// What the database said when we last looked; `None` while nobody waits.
    data_version: Option<i64>,
    looked: Instant,
}

impl Reader {
    pub(crate) fn new(place: Place, inbox: Receiver<Box<dyn Task>>, bell: Arc<Bell>) -> Self {
        Reader { place, inbox, bell, connection: None, data_version: None, looked: Instant::now() }
    }

    /// Opens the database if it is there, says how that went, and serves until nobody can send any more.
    pub(crate) fn run(mut self, opened: impl FnOnce(Result<()>)) {
        let result = self.connect();
        let failed = result.is_err();
        opened(result);
        if failed {
            return;
        }
        loop {
            let waiting = self.bell.waiting();
            let next = if waiting.is_empty() {
                self.data_version = None;
                self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                self.inbox.recv_timeout(LOOK_EVERY.saturating_sub(self.looked.elapsed()))
            };
            match next {
                Ok(task) => self.serve(task),
                Err(RecvTimeoutError::Timeout) => self.look(&waiting),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn connect(&mut self) -> Result<()> {
        let Place::File(path) = &self.place else { return Ok(()) };
        if self.connection.is_none() && path.exists() {
            self.connection = Some(connection::open(&self.place, Purpose::Read, false)?);
        }
        Ok(())
    }

    fn serve(&mut self, mut task: Box<dyn Task>) {
        if let Err(error) = self.connect() {
            return task.answer(Some(error));
        }
        let Some(connection) = &self.connection else {
            return task.answer(Some(no_file()));
        };
        if let Err(error) = connection.execute_batch("BEGIN") {
            return task.answer(Some(of_engine(error)));
        }
        task.run(connection);
        let ended = connection.execute_batch("COMMIT");
        if ended.is_err() {
            let _ = connection.execute_batch("ROLLBACK");
        }
        // Whoever began to wait must not miss a commit that comes after this answer.
        if self.data_version.is_none() && !self.bell.waiting().is_empty() {
            self.data_version = data_version(connection);
        }
        task.answer(ended.err().map(of_engine));
    }

    /// Rings if another connection committed and a queue that somebody waits for has due jobs.
    fn look(&mut self, waiting: &[String]) {
        self.looked = Instant::now();
        let Some(connection) = &self.connection else { return };
        let version = data_version(connection);
        if version == self.data_version {
            return;
        }
        self.data_version = version;
        match Work::new(connection).and_then(|work| wait::due(&work, waiting)) {
            Ok(false) => {}
            Ok(true) => self.bell.ring(),
            // A database that cannot be read now is looked at again: the sleepers are bounded anyway.
            Err(error) if error.kind() == ErrorKind::Busy => self.data_version = Some(0),
            Err(_) => {}
        }
    }
}

fn data_version(connection: &Connection) -> Option<i64> {
    connection.query_row("PRAGMA data_version", [], |row| row.get(0)).ok()
}
