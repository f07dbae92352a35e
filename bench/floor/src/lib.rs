//! The floor: what a database does without turno when it does the same raw work, so that a figure of `turno bench` can be
//! read as a ratio of the same run on the same machine.
//!
//! It is a crate of its own because it breaks two rules that hold for all others: it holds statements which are no
//! operations of the queue (`sql/<engine>/`), and it speaks to the drivers beside the backends. `turno-cli` knows
//! neither SQL nor engines, and the backends shall not carry what only a benchmark needs. It works in a schema or file of
//! its own, which it removes; of turno's own tables it removes the rows of queues named `turno-bench/...`, and it
//! refuses to touch any other.

mod mysql;
mod mysql_load;
mod postgres;
mod postgres_load;
mod sqlite;
#[cfg(feature = "sqlserver")]
mod sqlserver;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use turno_contract::{Engine, Error, ErrorKind, Result};

/// Every queue of a benchmark is named so; what has such a name is removed without a question.
pub const QUEUE_PREFIX: &str = "turno-bench/";

/// A transaction that keeps the database from forgetting old rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// A snapshot held open by a session that does nothing.
    Snapshot,
    /// A transaction that has written and sits idle.
    Writer,
    /// Four long scans, each on one snapshot, that never end.
    Readers,
}

impl Hold {
    /// All of them.
    pub const ALL: [Hold; 3] = [Hold::Snapshot, Hold::Writer, Hold::Readers];

    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Hold::Snapshot => "a held snapshot",
            Hold::Writer => "an idle transaction that has written",
            Hold::Readers => "four long scans",
        }
    }
}

/// Ends the transactions of a [`Hold`] when it is dropped.
pub struct Holding(#[allow(dead_code, reason = "held for its drop")] Box<dyn Send>);

/// What the server counts; differences mean something, absolute values do not.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counters {
    /// Bytes of write-ahead log.
    pub wal_bytes: i64,
    /// Rows of turno's tables that were updated or deleted.
    pub dead_rows: i64,
    /// Transactions of everybody in this database.
    pub transactions: i64,
}

/// The raw work on one engine. Times are wall-clock times of the work itself, without its preparation.
#[async_trait]
pub trait Floor: Send + Sync {
    /// Name and version of the server, for the report.
    async fn version(&self) -> Result<String>;

    /// Puts rows into a bare table, the fastest way there is.
    async fn insert_bare(&self, rows: u64) -> Result<Duration>;

    /// Puts rows into a copy of turno's job table with its indexes and constraints, the fastest way there is.
    async fn insert_same(&self, rows: u64) -> Result<Duration>;

    /// Claims and deletes so many jobs of a bare table with two connections (SQLite: one), in batches.
    async fn drain(&self, jobs: u64, batch: u32) -> Result<Duration>;

    /// Puts in jobs by the thousand and drains them, both at the same time.
    async fn mix(&self, jobs: u64, batch: u32) -> Result<Duration>;

    /// From the commit of one job to the end of its claim, once for each round.
    async fn wake(&self, rounds: u32) -> Result<Vec<Duration>>;

    /// Begins a hold; `None` where it means nothing.
    async fn hold(&self, how: Hold) -> Result<Option<Holding>>;

    /// What the server has counted; `None` where it does not.
    async fn counters(&self) -> Result<Option<Counters>>;

    /// The process ids of the server's sessions, if they run on this machine.
    async fn server_processes(&self) -> Result<Vec<u32>>;

    /// Does now what the engine would else do in the middle of what is measured: vacuum, statistics, checkpoint, purge.
    async fn sweep(&self) -> Result<()>;

    /// Removes the rows of all queues of benchmarks from turno's tables, and sweeps up behind them.
    async fn clear(&self) -> Result<()>;

    /// Removes the floor itself.
    async fn remove(self: Box<Self>) -> Result<()>;
}

/// The floor beside the installation at this URL, which is of this engine.
///
/// Errors: `Conflict` if another benchmark is at work there, or a schema with the floor's name is somebody else's.
pub async fn connect(url: &str, engine: Engine) -> Result<Box<dyn Floor>> {
    match engine {
        Engine::Postgres => Ok(Box::new(postgres::PostgresFloor::connect(url).await?)),
        Engine::Mysql | Engine::Mariadb => Ok(Box::new(mysql::MysqlFloor::connect(url).await?)),
        Engine::Sqlite => Ok(Box::new(sqlite::SqliteFloor::connect(url).await?)),
        #[cfg(feature = "sqlserver")]
        Engine::Sqlserver => Ok(Box::new(sqlserver::SqlServerFloor::connect(url).await?)),
        #[allow(unreachable_patterns, reason = "an engine may be left out of the build")]
        other => {
            let message = format!("there is no benchmark for {other} yet");
            Err(Error::new(ErrorKind::InvalidArgument, message))
        }
    }
}

/// How far the sessions are that claim and delete together.
struct Progress {
    done: AtomicU64,
    /// Until nothing is left, or until so many are done.
    total: Option<u64>,
}

impl Progress {
    fn until(total: Option<u64>) -> Arc<Self> {
        Arc::new(Progress { done: AtomicU64::new(0), total })
    }

    /// Counts what a session has just done, and says whether it goes on; it waits a moment for those who put jobs in.
    async fn goes_on(&self, done: usize) -> bool {
        let so_far = self.done.fetch_add(done as u64, Ordering::Relaxed) + done as u64;
        match self.total {
            None => done > 0,
            Some(total) if so_far >= total => false,
            Some(_) => {
                if done == 0 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                true
            }
        }
    }
}

/// A task that ends with what holds this.
struct AbortOnDrop(tokio::task::JoinHandle<Result<()>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits for a task; a panic in it goes on here.
async fn join<T>(task: tokio::task::JoinHandle<Result<T>>) -> Result<T> {
    match task.await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => {
                Err(Error::new(ErrorKind::Internal, "a task of the floor was aborted").with_source(error))
            }
        },
    }
}
