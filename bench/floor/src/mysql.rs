//! The floor on MySQL and MariaDB: its database `turno_floor`, sessions of its own, and what the server has yet to forget. It
//! refuses a database of that name which it did not make.

use std::str::FromStr;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use turno_contract::{Error, ErrorKind, Result};
use turno_mysql::MysqlOptions;

use crate::{AbortOnDrop, Counters, Floor, Hold, Holding};

/// Every statement that is more than one line.
pub(crate) mod sql {
    pub(crate) const CREATE: &str = include_str!("../sql/mysql/create.sql");
    pub(crate) const CLAIM: &str = include_str!("../sql/mysql/claim.sql");
    pub(crate) const LEASE: &str = include_str!("../sql/mysql/lease.sql");
    pub(crate) const SETTLE: &str = include_str!("../sql/mysql/settle.sql");
    pub(crate) const CLEAR: &str = include_str!("../sql/mysql/clear.sql");
    pub(crate) const UNPURGED: &str = include_str!("../sql/mysql/unpurged.sql");
}

/// So many old versions of rows are in nobody's way.
const UNPURGED_FEW: i64 = 2000;
/// How long the server may take to forget the others.
const PURGE_MAX: Duration = Duration::from_secs(60);

pub(crate) struct MysqlFloor {
    options: MysqlOptions,
    /// Holds the lock that keeps a second benchmark away.
    pub(crate) session: tokio::sync::Mutex<Conn>,
}

impl MysqlFloor {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let options = MysqlOptions::from_str(url)?;
        let mut session = options.session().await?;
        let locked: Option<i64> =
            session.query_first("SELECT GET_LOCK('turno bench', 0)").await.map_err(failed)?;
        if locked != Some(1) {
            return Err(Error::new(ErrorKind::Conflict, "another turno bench is at work on this server"));
        }
        let floor = MysqlFloor { options, session: tokio::sync::Mutex::new(session) };
        floor.drop_database().await?;
        for statement in sql::CREATE.split(";\n") {
            floor.run(&floor.text(statement)).await?;
        }
        Ok(floor)
    }

    /// A statement for the installation's own database.
    fn text(&self, sql: &str) -> String {
        sql.replace("turno.", &format!("{}.", self.options.schema_name()))
    }

    pub(crate) async fn run(&self, sql: &str) -> Result<()> {
        self.session.lock().await.query_drop(sql).await.map_err(failed)
    }

    /// One more session.
    pub(crate) async fn another(&self) -> Result<Conn> {
        let mut session = self.options.session().await?;
        let isolation = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
        session.query_drop(isolation).await.map_err(failed)?;
        Ok(session)
    }

    async fn drop_database(&self) -> Result<()> {
        let mut session = self.session.lock().await;
        let tables: Vec<String> = session
            .query("SELECT table_name FROM information_schema.tables WHERE table_schema = 'turno_floor'")
            .await
            .map_err(failed)?;
        if !tables.is_empty() && !tables.iter().any(|table| table == "made_by_turno_bench") {
            let message = "there is a database turno_floor that turno bench did not make; it is left alone";
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        session.query_drop("DROP DATABASE IF EXISTS turno_floor").await.map_err(failed)
    }

    /// Old versions of rows slow down whatever comes next, so what comes next waits for the purge.
    async fn wait_for_purge(&self) -> Result<()> {
        let begun = Instant::now();
        loop {
            let unpurged: Option<i64> =
                self.session.lock().await.query_first(sql::UNPURGED).await.map_err(failed)?;
            if unpurged.is_none_or(|n| n < UNPURGED_FEW) || begun.elapsed() > PURGE_MAX {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[async_trait]
impl Floor for MysqlFloor {
    async fn version(&self) -> Result<String> {
        let version: Option<String> =
            self.session.lock().await.query_first("SELECT VERSION()").await.map_err(failed)?;
        let version = version.unwrap_or_default();
        Ok(if version.contains("MariaDB") { version } else { format!("MySQL {version}") })
    }

    async fn insert_bare(&self, rows: u64) -> Result<Duration> {
        self.run("TRUNCATE TABLE turno_floor.bare").await?;
        let into = "INSERT INTO turno_floor.bare (id, queue, kind, payload) VALUES ";
        self.insert(into, rows, |i| format!("({i},'turno-bench/x','noop','{{\"n\":{i}}}')")).await
    }

    async fn insert_same(&self, rows: u64) -> Result<Duration> {
        self.run("TRUNCATE TABLE turno_floor.same").await?;
        let into = "INSERT INTO turno_floor.same (id, queue, kind, payload, state, `rank`, run_at, first_due_at, created_at, operation_id) VALUES ";
        let row = |i: u64| {
            format!(
                "({i},'turno-bench/x','noop','{{\"n\":{i}}}','ready',{i},{i},{i},{i},UNHEX('{:032x}'))",
                u128::from(i)
            )
        };
        self.insert(into, rows, row).await
    }

    async fn drain(&self, jobs: u64, batch: u32) -> Result<Duration> {
        self.fill(jobs).await?;
        self.wait_for_purge().await?;
        let sessions = [self.another().await?, self.another().await?];
        let begun = Instant::now();
        self.drain_with(sessions, batch, None).await?;
        let took = begun.elapsed();
        self.wait_for_purge().await?;
        Ok(took)
    }

    async fn mix(&self, jobs: u64, batch: u32) -> Result<Duration> {
        self.fill(0).await?;
        let sessions = [self.another().await?, self.another().await?];
        let begun = Instant::now();
        let drained = self.drain_with(sessions, batch, Some(jobs));
        tokio::try_join!(self.produce(jobs), drained)?;
        Ok(begun.elapsed())
    }

    async fn wake(&self, rounds: u32) -> Result<Vec<Duration>> {
        self.fill(0).await?;
        self.wake_rounds(self.another().await?, rounds).await
    }

    async fn hold(&self, how: Hold) -> Result<Option<Holding>> {
        let mut held: Vec<Box<dyn Send>> = Vec::new();
        let sessions = if how == Hold::Readers { 4 } else { 1 };
        for _ in 0..sessions {
            let mut session = self.options.session().await?;
            let repeatable = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ";
            session.query_drop(repeatable).await.map_err(failed)?;
            session.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT").await.map_err(failed)?;
            match how {
                Hold::Snapshot => session.query_drop("SELECT COUNT(*) FROM turno_floor.bare").await,
                Hold::Writer => session.query_drop("INSERT INTO turno_floor.bare (id) VALUES (0)").await,
                Hold::Readers => Ok(()),
            }
            .map_err(failed)?;
            match how {
                Hold::Readers => {
                    let count = self.text("SELECT COUNT(*) FROM turno.finished_job");
                    held.push(Box::new(AbortOnDrop(tokio::spawn(scan(session, count)))));
                }
                _ => held.push(Box::new(session)),
            }
        }
        Ok(Some(Holding(Box::new(held))))
    }

    async fn counters(&self) -> Result<Option<Counters>> {
        Ok(None)
    }

    async fn server_processes(&self) -> Result<Vec<u32>> {
        Ok(Vec::new())
    }

    async fn sweep(&self) -> Result<()> {
        self.wait_for_purge().await
    }

    async fn clear(&self) -> Result<()> {
        for table in ["job", "unique_key", "attempt", "finished_job", "enqueue_key", "refused", "queue"] {
            let delete = self.text(sql::CLEAR).replace("{table}", table);
            loop {
                let mut session = self.session.lock().await;
                session.query_drop(&delete).await.map_err(failed)?;
                if session.affected_rows() == 0 {
                    break;
                }
            }
        }
        self.sweep().await
    }

    async fn remove(self: Box<Self>) -> Result<()> {
        self.drop_database().await
    }
}

/// Reads again and again on one snapshot, for ever.
async fn scan(mut session: Conn, sql: String) -> Result<()> {
    loop {
        session.query_drop(&sql).await.map_err(failed)?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(crate) fn failed(error: mysql_async::Error) -> Error {
    let kind = match &error {
        mysql_async::Error::Server(server) if matches!(server.code, 1044 | 1045 | 1142 | 1227) => {
            ErrorKind::PermissionDenied
        }
        mysql_async::Error::Server(_) => ErrorKind::Internal,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, format!("the floor: {error}")).with_source(error)
}
