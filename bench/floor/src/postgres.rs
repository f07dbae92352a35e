//! The floor on PostgreSQL: its schema `turno_floor`, sessions of its own, and what the server counts. It refuses a
//! schema of that name which it did not make.

use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio_postgres::Client;
use turno_contract::{Error, ErrorKind, Result};
use turno_postgres::PostgresOptions;

use crate::{AbortOnDrop, Counters, Floor, Hold, Holding};

/// Every statement that is more than one line.
pub(crate) mod sql {
    pub(crate) const CREATE: &str = include_str!("../sql/postgres/create.sql");
    pub(crate) const COPY_BARE: &str = include_str!("../sql/postgres/copy_bare.sql");
    pub(crate) const COPY_SAME: &str = include_str!("../sql/postgres/copy_same.sql");
    pub(crate) const COPY_LEASE: &str = include_str!("../sql/postgres/copy_lease.sql");
    pub(crate) const CLAIM: &str = include_str!("../sql/postgres/claim.sql");
    pub(crate) const SETTLE: &str = include_str!("../sql/postgres/settle.sql");
    pub(crate) const SESSION: &str = include_str!("../sql/postgres/session.sql");
    pub(crate) const RING: &str = include_str!("../sql/postgres/ring.sql");
    pub(crate) const COUNTERS: &str = include_str!("../sql/postgres/counters.sql");
    pub(crate) const SERVER: &str = include_str!("../sql/postgres/server.sql");
    pub(crate) const CLEAR: &str = include_str!("../sql/postgres/clear.sql");
    pub(crate) const SCAN: &str = include_str!("../sql/postgres/scan.sql");
}

const COMMENT: &str = "made by turno bench, which removes it";
/// How long the server may take to publish what it has counted.
const COUNTERS_LAG: Duration = Duration::from_millis(1200);

pub(crate) struct PostgresFloor {
    options: PostgresOptions,
    /// Holds the lock that keeps a second benchmark away.
    pub(crate) client: Client,
}

impl PostgresFloor {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let options = PostgresOptions::from_str(url)?;
        let client = options.session(|| {}).await?;
        let floor = PostgresFloor { options, client };
        let locked = "SELECT pg_try_advisory_lock(hashtextextended('turno bench', 0))";
        if !floor.client.query_one(locked, &[]).await.map_err(failed)?.get::<_, bool>(0) {
            return Err(Error::new(ErrorKind::Conflict, "another turno bench is at work on this database"));
        }
        floor.drop_schema().await?;
        floor.client.batch_execute(&floor.text(sql::CREATE)).await.map_err(failed)?;
        Ok(floor)
    }

    /// A statement for the installation's own schema.
    fn text(&self, sql: &str) -> String {
        sql.replace("turno.", &format!("{}.", self.options.schema_name()))
            .replace("= 'turno'", &format!("= '{}'", self.options.schema_name()))
    }

    /// One more session.
    pub(crate) async fn session(&self, rung: impl Fn() + Send + 'static) -> Result<Client> {
        let client = self.options.session(rung).await?;
        client.batch_execute(sql::SESSION).await.map_err(failed)?;
        Ok(client)
    }

    async fn drop_schema(&self) -> Result<()> {
        let found = "SELECT obj_description(to_regnamespace('turno_floor'), 'pg_namespace'), to_regnamespace('turno_floor') IS NULL";
        let row = self.client.query_one(found, &[]).await.map_err(failed)?;
        if row.get::<_, bool>(1) {
            return Ok(());
        }
        if row.get::<_, Option<&str>>(0) != Some(COMMENT) {
            let message = "there is a schema turno_floor that turno bench did not make; it is left alone";
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let dropped = "SET client_min_messages = warning; DROP SCHEMA turno_floor CASCADE";
        self.client.batch_execute(dropped).await.map_err(failed)
    }
}

#[async_trait]
impl Floor for PostgresFloor {
    async fn version(&self) -> Result<String> {
        let row = self.client.query_one("SHOW server_version", &[]).await.map_err(failed)?;
        Ok(format!("PostgreSQL {}", row.get::<_, &str>(0)))
    }

    async fn insert_bare(&self, rows: u64) -> Result<Duration> {
        self.client.batch_execute("TRUNCATE turno_floor.bare").await.map_err(failed)?;
        self.copy(sql::COPY_BARE, rows, |i| format!("{i}\tturno-bench/x\tnoop\t{{\"n\":{i}}}\n")).await
    }

    async fn insert_same(&self, rows: u64) -> Result<Duration> {
        self.client.batch_execute("TRUNCATE turno_floor.same").await.map_err(failed)?;
        let line = |i: u64| format!("{i}\tturno-bench/x\tnoop\t{{\"n\":{i}}}\tready\t{i}\n");
        self.copy(sql::COPY_SAME, rows, line).await
    }

    async fn drain(&self, jobs: u64, batch: u32) -> Result<Duration> {
        self.fill(jobs).await?;
        let sessions = [self.session(|| {}).await?, self.session(|| {}).await?];
        let begun = Instant::now();
        self.drain_with(sessions, batch, None).await?;
        Ok(begun.elapsed())
    }

    async fn mix(&self, jobs: u64, batch: u32) -> Result<Duration> {
        self.fill(0).await?;
        let sessions = [self.session(|| {}).await?, self.session(|| {}).await?];
        let begun = Instant::now();
        let drained = self.drain_with(sessions, batch, Some(jobs));
        tokio::try_join!(self.produce(jobs), drained)?;
        Ok(begun.elapsed())
    }

    async fn wake(&self, rounds: u32) -> Result<Vec<Duration>> {
        self.fill(0).await?;
        let rang = Arc::new(Notify::new());
        let bell = Arc::clone(&rang);
        let sleeper = self.session(move || bell.notify_one()).await?;
        sleeper.batch_execute("LISTEN turno_floor").await.map_err(failed)?;
        self.wake_rounds(&sleeper, &rang, rounds).await
    }

    async fn hold(&self, how: Hold) -> Result<Option<Holding>> {
        let mut held: Vec<Box<dyn Send>> = Vec::new();
        let sessions = if how == Hold::Readers { 4 } else { 1 };
        for _ in 0..sessions {
            let client = self.options.session(|| {}).await?;
            client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.map_err(failed)?;
            let begin = match how {
                Hold::Snapshot => "SELECT count(*) FROM turno_floor.bare".to_owned(),
                Hold::Writer => "INSERT INTO turno_floor.bare (id) VALUES (0)".to_owned(),
                Hold::Readers => self.text(sql::SCAN),
            };
            client.batch_execute(&begin).await.map_err(failed)?;
            match how {
                Hold::Readers => held.push(Box::new(AbortOnDrop(tokio::spawn(scan(client))))),
                _ => held.push(Box::new(client)),
            }
        }
        Ok(Some(Holding(Box::new(held))))
    }

    async fn counters(&self) -> Result<Option<Counters>> {
        tokio::time::sleep(COUNTERS_LAG).await;
        let row = self.client.query_one(&self.text(sql::COUNTERS), &[]).await.map_err(failed)?;
        Ok(Some(Counters {
            wal_bytes: row.get(0),
            dead_rows: row.get::<_, Option<i64>>(1).unwrap_or(0),
            transactions: row.get(2),
        }))
    }

    async fn server_processes(&self) -> Result<Vec<u32>> {
        let rows = self.client.query(sql::SERVER, &[]).await.map_err(failed)?;
        Ok(rows.iter().map(|row| row.get::<_, i32>(0).unsigned_abs()).collect())
    }

    async fn clear(&self) -> Result<()> {
        self.client.batch_execute(&self.text(sql::CLEAR)).await.map_err(failed)?;
        self.sweep().await
    }

    async fn sweep(&self) -> Result<()> {
        // A vacuum cannot run in a transaction, and several statements in one message are one.
        for table in ["job", "finished_job", "attempt"] {
            let vacuum = format!("VACUUM (ANALYZE) {}.{table}", self.options.schema_name());
            self.client.batch_execute(&vacuum).await.map_err(failed)?;
        }
        // Only for even figures; a role that may not is no reason to stop.
        let _ = self.client.batch_execute("CHECKPOINT").await;
        Ok(())
    }

    async fn remove(self: Box<Self>) -> Result<()> {
        self.drop_schema().await
    }
}

/// Fetches slowly, for ever.
async fn scan(client: Client) -> Result<()> {
    loop {
        client.batch_execute("FETCH 200 FROM scan").await.map_err(failed)?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(crate) fn failed(error: tokio_postgres::Error) -> Error {
    let kind = match error.code().map(|code| code.code()) {
        Some("42501") => ErrorKind::PermissionDenied,
        None => ErrorKind::Unavailable,
        Some(_) => ErrorKind::Internal,
    };
    let message = match error.as_db_error() {
        Some(error) => format!("the floor: {}", error.message()),
        None => format!("the floor: {error}"),
    };
    Error::new(kind, message).with_source(error)
}
