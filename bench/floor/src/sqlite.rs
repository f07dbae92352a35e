//! The floor on SQLite: a second file beside the database, in the same journal mode, with one connection, since SQLite
//! has one writer. It refuses a database in memory, where there is nothing to compare with.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rusqlite::{Connection, params};
use tempfile::TempDir;
use turno_contract::{Error, ErrorKind, Result, Token};

use crate::{Counters, Floor, Hold, Holding};

const CREATE: &str = include_str!("../sql/sqlite/create.sql");
const SAME: &str = include_str!("../sql/sqlite/same.sql");
const INSERT_BARE: &str = include_str!("../sql/sqlite/insert_bare.sql");
const INSERT_SAME: &str = include_str!("../sql/sqlite/insert_same.sql");
const INSERT_LEASE: &str = include_str!("../sql/sqlite/insert_lease.sql");
const CLAIM: &str = include_str!("../sql/sqlite/claim.sql");
const SETTLE: &str = include_str!("../sql/sqlite/settle.sql");
const CLEAR: &str = include_str!("../sql/sqlite/clear.sql");

/// Rows of one transaction while jobs are drained at the same time.
const PRODUCE_ROWS: u64 = 1000;
/// How long the floor waits for the lock that turno's writer holds.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct SqliteFloor {
    database: PathBuf,
    floor: Arc<Mutex<Connection>>,
    folder: TempDir,
}

impl SqliteFloor {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let path = url.strip_prefix("sqlite:").unwrap_or(url);
        let path = path.strip_prefix("//").unwrap_or(path).split('?').next().unwrap_or(path);
        if path.starts_with(":memory:") {
            return Err(Error::invalid("a database in memory has no floor to compare with; name a file"));
        }
        let database = PathBuf::from(path);
        let parent = database.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = tempfile::Builder::new()
            .prefix(".turno-floor-")
            .tempdir_in(parent.unwrap_or(Path::new(".")))
            .map_err(|error| {
                Error::new(ErrorKind::Unavailable, "cannot make a folder beside the database")
                    .with_source(error)
            })?;
        let mut floor = open(&folder.path().join("floor.db"))?;
        floor.execute_batch(CREATE).map_err(failed)?;
        copy_schema(&database, &mut floor)?;
        Ok(SqliteFloor { database, floor: Arc::new(Mutex::new(floor)), folder })
    }

    /// Runs on a thread that may block, on the floor's one connection.
    async fn on_floor<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let floor = Arc::clone(&self.floor);
        blocking(move || work(&mut floor.lock().unwrap_or_else(PoisonError::into_inner)).map_err(failed))
            .await
    }
}

#[async_trait]
impl Floor for SqliteFloor {
    async fn version(&self) -> Result<String> {
        Ok(format!("SQLite {}", rusqlite::version()))
    }

    async fn insert_bare(&self, rows: u64) -> Result<Duration> {
        self.on_floor(move |floor| {
            floor.execute("DELETE FROM bare", [])?;
            let begun = Instant::now();
            let transaction = floor.transaction()?;
            let mut insert = transaction.prepare_cached(INSERT_BARE)?;
            for i in 1..=rows as i64 {
                insert.execute(params![i, "turno-bench/x", "noop", payload(i)])?;
            }
            drop(insert);
            transaction.commit()?;
            Ok(begun.elapsed())
        })
        .await
    }

    async fn insert_same(&self, rows: u64) -> Result<Duration> {
        self.on_floor(move |floor| {
            floor.execute("DELETE FROM turno_job", [])?;
            let begun = Instant::now();
            let transaction = floor.transaction()?;
            let mut insert = transaction.prepare_cached(INSERT_SAME)?;
            for i in 1..=rows as i64 {
                insert.execute(params![i, "turno-bench/x", "noop", payload(i)])?;
            }
            drop(insert);
            transaction.commit()?;
            Ok(begun.elapsed())
        })
        .await
    }

    async fn drain(&self, jobs: u64, batch: u32) -> Result<Duration> {
        self.on_floor(move |floor| {
            floor.execute("DELETE FROM lease", [])?;
            produce(floor, 1, jobs)?;
            let begun = Instant::now();
            while work_batch(floor, batch)? > 0 {}
            Ok(begun.elapsed())
        })
        .await
    }

    async fn mix(&self, jobs: u64, batch: u32) -> Result<Duration> {
        self.on_floor(move |floor| {
            floor.execute("DELETE FROM lease", [])?;
            let begun = Instant::now();
            let mut next = 1;
            // One writer: whatever two would do, they would do it in turns.
            loop {
                let rows = PRODUCE_ROWS.min(jobs + 1 - next);
                produce(floor, next, rows)?;
                next += rows;
                let done = work_batch(floor, batch)?;
                if done == 0 && next > jobs {
                    return Ok(begun.elapsed());
                }
            }
        })
        .await
    }

    async fn wake(&self, rounds: u32) -> Result<Vec<Duration>> {
        self.on_floor(move |floor| {
            floor.execute("DELETE FROM lease", [])?;
            let mut times = Vec::new();
            for round in 1..=u64::from(rounds) {
                produce(floor, round, 1)?;
                let committed = Instant::now();
                claim(floor, Token::random(), 1)?;
                times.push(committed.elapsed());
            }
            Ok(times)
        })
        .await
    }

    async fn hold(&self, _how: Hold) -> Result<Option<Holding>> {
        Ok(None)
    }

    async fn counters(&self) -> Result<Option<Counters>> {
        Ok(None)
    }

    async fn server_processes(&self) -> Result<Vec<u32>> {
        Ok(Vec::new())
    }

    async fn sweep(&self) -> Result<()> {
        let path = self.database.clone();
        let sweep = "PRAGMA wal_checkpoint(PASSIVE); ANALYZE";
        blocking(move || open(&path)?.execute_batch(sweep).map_err(failed)).await
    }

    async fn clear(&self) -> Result<()> {
        let path = self.database.clone();
        blocking(move || {
            let connection = open(&path)?;
            connection.execute_batch(CLEAR).map_err(failed)
        })
        .await
    }

    async fn remove(self: Box<Self>) -> Result<()> {
        drop(self.floor);
        self.folder.close().map_err(|error| {
            Error::new(ErrorKind::Unavailable, "cannot remove the floor's folder").with_source(error)
        })
    }
}

/// The settings of turno's own connections.
fn open(path: &Path) -> Result<Connection> {
    let connection = Connection::open(path).map_err(failed)?;
    connection.busy_timeout(PATIENCE).map_err(failed)?;
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).map_err(failed)?;
    connection
        .execute_batch("PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 67108864")
        .map_err(failed)?;
    Ok(connection)
}

/// Makes turno's job table with its indexes in the floor's file.
fn copy_schema(database: &Path, floor: &mut Connection) -> Result<()> {
    let source = open(database)?;
    let mut statement = source.prepare(SAME).map_err(failed)?;
    let made = statement.query_map([], |row| row.get::<_, String>(0)).map_err(failed)?;
    for sql in made {
        floor.execute_batch(&sql.map_err(failed)?).map_err(failed)?;
    }
    Ok(())
}

fn payload(i: i64) -> String {
    format!("{{\"n\":{i}}}")
}

fn produce(floor: &mut Connection, first: u64, rows: u64) -> rusqlite::Result<()> {
    let transaction = floor.transaction()?;
    let mut insert = transaction.prepare_cached(INSERT_LEASE)?;
    for i in first as i64..(first + rows) as i64 {
        insert.execute(params![i, payload(i)])?;
    }
    drop(insert);
    transaction.commit()
}

fn claim(floor: &mut Connection, token: Token, batch: u32) -> rusqlite::Result<Vec<i64>> {
    let transaction = floor.transaction()?;
    let mut claim = transaction.prepare_cached(CLAIM)?;
    let ids = claim.query_map(params![token.as_uuid().as_bytes(), batch], |row| row.get(0))?;
    let ids = ids.collect::<rusqlite::Result<Vec<i64>>>()?;
    drop(claim);
    transaction.commit()?;
    Ok(ids)
}

/// One claim and its settle, a transaction each.
fn work_batch(floor: &mut Connection, batch: u32) -> rusqlite::Result<usize> {
    let token = Token::random();
    let ids = claim(floor, token, batch)?;
    let transaction = floor.transaction()?;
    let mut settle = transaction.prepare_cached(SETTLE)?;
    for id in &ids {
        settle.execute(params![id, token.as_uuid().as_bytes()])?;
    }
    drop(settle);
    transaction.commit()?;
    Ok(ids.len())
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    crate::join(tokio::task::spawn_blocking(work)).await
}

fn failed(error: rusqlite::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("the floor: {error}")).with_source(error)
}
