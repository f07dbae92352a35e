//! The floor on SQL Server: its schema `turno_floor` in the installation's database, and sessions of its own. It refuses a schema of
//! that name which it did not make. No server has run it yet: see docs/verification.md.

use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use turno_contract::{Backend, Error, ErrorKind, Result, Token};
use turno_sqlserver::{Connection, SqlServerBackend, SqlServerOptions};

use crate::{Counters, Floor, Hold, Holding, Progress, join};

/// Every statement that is more than one line.
mod sql {
    pub(super) const CREATE: &str = include_str!("../sql/sqlserver/create.sql");
    pub(super) const CLAIM: &str = include_str!("../sql/sqlserver/claim.sql");
    pub(super) const SETTLE: &str = include_str!("../sql/sqlserver/settle.sql");
    pub(super) const CLEAR: &str = include_str!("../sql/sqlserver/clear.sql");
    pub(super) const DROP: &str = include_str!("../sql/sqlserver/drop.sql");
    pub(super) const BARE: &str = include_str!("../sql/sqlserver/insert_bare.sql");
    pub(super) const SAME: &str = include_str!("../sql/sqlserver/insert_same.sql");
    pub(super) const LEASE: &str = include_str!("../sql/sqlserver/insert_lease.sql");
}

/// Rows of one insert; turno's own have a thousand.
const INSERT_ROWS: u64 = 5000;
/// Rows of one insert while jobs are drained at the same time.
const PRODUCE_ROWS: u64 = 1000;

pub(crate) struct SqlServerFloor {
    options: SqlServerOptions,
    /// Holds the lock that keeps a second benchmark away.
    session: tokio::sync::Mutex<Connection>,
}

impl SqlServerFloor {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let options = SqlServerOptions::from_str(url)?;
        let mut session = options.connect().await?;
        let lock = "DECLARE @n int; EXEC @n = sp_getapplock N'turno bench', 'Exclusive', 'Session', 0; SELECT CONVERT(bigint, @n) AS n";
        if number(&mut session, lock).await?.is_none_or(|answer| answer < 0) {
            return Err(Error::new(ErrorKind::Conflict, "another turno bench is at work in this database"));
        }
        run(&mut session, sql::DROP).await?;
        for batch in sql::CREATE.split("GO\n") {
            run(&mut session, batch).await?;
        }
        let script = SqlServerBackend::connect(url).await?.script();
        run(&mut session, &same_table(&script, options.schema_name())?).await?;
        Ok(SqlServerFloor { options, session: tokio::sync::Mutex::new(session) })
    }

    async fn run(&self, sql: &str) -> Result<()> {
        run(&mut *self.session.lock().await, sql).await
    }

    /// Inserts so many rows, many in a statement.
    async fn insert(&self, sql: &str, rows: u64, rows_each: u64) -> Result<Duration> {
        let batches = batches(rows, rows_each);
        let mut session = self.session.lock().await;
        let begun = Instant::now();
        for batch in batches {
            session.execute(sql, &[&batch]).await.map_err(failed)?;
        }
        Ok(begun.elapsed())
    }

    /// So many ready jobs, and nothing else.
    async fn fill(&self, jobs: u64) -> Result<()> {
        self.run("TRUNCATE TABLE turno_floor.lease").await?;
        self.insert(sql::LEASE, jobs, INSERT_ROWS).await?;
        self.run("UPDATE STATISTICS turno_floor.lease").await
    }

    /// Claims and deletes until nothing is left, or until so many are done.
    async fn drain_with(&self, batch: u32, total: Option<u64>) -> Result<()> {
        let progress = Progress::until(total);
        let mut tasks = Vec::new();
        for _ in 0..2 {
            let mut session = self.options.connect().await?;
            let progress = Arc::clone(&progress);
            tasks.push(tokio::spawn(async move {
                loop {
                    let (ids, token) = claim(&mut session, batch).await?;
                    settle(&mut session, &ids, token).await?;
                    if !progress.goes_on(ids.len()).await {
                        return Ok(());
                    }
                }
            }));
        }
        for task in tasks {
            join(task).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Floor for SqlServerFloor {
    async fn version(&self) -> Result<String> {
        let sql = "SELECT CONVERT(nvarchar(128), SERVERPROPERTY('ProductVersion')) AS version";
        let mut session = self.session.lock().await;
        let row = session.simple_query(sql).await.map_err(failed)?.into_row().await.map_err(failed)?;
        let version = row.and_then(|row| row.get::<&str, _>(0).map(str::to_owned)).unwrap_or_default();
        Ok(format!("SQL Server {version}"))
    }

    async fn insert_bare(&self, rows: u64) -> Result<Duration> {
        self.run("TRUNCATE TABLE turno_floor.bare").await?;
        self.insert(sql::BARE, rows, INSERT_ROWS).await
    }

    async fn insert_same(&self, rows: u64) -> Result<Duration> {
        self.run("TRUNCATE TABLE turno_floor.same").await?;
        self.insert(sql::SAME, rows, INSERT_ROWS).await
    }

    async fn drain(&self, jobs: u64, batch: u32) -> Result<Duration> {
        self.fill(jobs).await?;
        let begun = Instant::now();
        self.drain_with(batch, None).await?;
        Ok(begun.elapsed())
    }

    async fn mix(&self, jobs: u64, batch: u32) -> Result<Duration> {
        self.fill(0).await?;
        let begun = Instant::now();
        let produced = self.insert(sql::LEASE, jobs, PRODUCE_ROWS);
        tokio::try_join!(produced, self.drain_with(batch, Some(jobs)))?;
        Ok(begun.elapsed())
    }

    async fn wake(&self, rounds: u32) -> Result<Vec<Duration>> {
        self.fill(0).await?;
        let mut sleeper = self.options.connect().await?;
        let mut times = Vec::new();
        for _ in 0..rounds {
            self.insert(sql::LEASE, 1, 1).await?;
            let committed = Instant::now();
            let (ids, token) = claim(&mut sleeper, 1).await?;
            times.push(committed.elapsed());
            settle(&mut sleeper, &ids, token).await?;
        }
        Ok(times)
    }

    async fn hold(&self, how: Hold) -> Result<Option<Holding>> {
        let mut session = self.options.connect().await?;
        let allowed = "SELECT CONVERT(bigint, snapshot_isolation_state) AS n FROM sys.databases WHERE database_id = DB_ID()";
        let has_snapshots = number(&mut session, allowed).await? == Some(1);
        let begin = match how {
            Hold::Writer => {
                "BEGIN TRANSACTION; INSERT INTO turno_floor.bare VALUES (0, 0x6100, 0x6100, N'0')"
            }
            Hold::Snapshot if has_snapshots => {
                "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRANSACTION; SELECT COUNT(*) AS n FROM turno_floor.bare"
            }
            // Without versions a reader holds nothing back; with them, scans do no more than a snapshot.
            Hold::Snapshot | Hold::Readers => return Ok(None),
        };
        run(&mut session, begin).await?;
        Ok(Some(Holding(Box::new(session))))
    }

    async fn counters(&self) -> Result<Option<Counters>> {
        Ok(None)
    }

    async fn server_processes(&self) -> Result<Vec<u32>> {
        Ok(Vec::new())
    }

    async fn sweep(&self) -> Result<()> {
        self.run("CHECKPOINT").await
    }

    async fn clear(&self) -> Result<()> {
        let turno = format!("{}.", self.options.schema_name());
        for table in ["unfinished_job", "attempt", "finished_job", "enqueue_key", "refused_result", "queue"] {
            let delete = sql::CLEAR.replace("turno.", &turno).replace("each_table", table);
            loop {
                let mut session = self.session.lock().await;
                if session.execute(delete.as_str(), &[]).await.map_err(failed)?.total() == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn remove(self: Box<Self>) -> Result<()> {
        self.run(sql::DROP).await
    }
}

/// The definition of turno's own table of jobs, for a table of another name: columns, constraints and indexes.
fn same_table(script: &str, schema: &str) -> Result<String> {
    let name = format!("{schema}.unfinished_job");
    let definition = script
        .find(&format!("CREATE TABLE {name} "))
        .and_then(|start| script[start..].find("\nGO\n").map(|length| &script[start..start + length]));
    let definition = definition.ok_or_else(|| {
        Error::new(ErrorKind::Internal, "the schema has another table of jobs than the floor knows")
    })?;
    Ok(definition.replace(&name, "turno_floor.same"))
}

/// The least that gives each job to one caller only, in one statement.
async fn claim(session: &mut Connection, batch: u32) -> Result<(Vec<i64>, uuid::Uuid)> {
    let token = Token::random().as_uuid();
    let rows = session.query(sql::CLAIM, &[&i64::from(batch), &token]).await.map_err(failed)?;
    let rows = rows.into_first_result().await.map_err(failed)?;
    Ok((rows.iter().filter_map(|row| row.get::<i64, _>("id")).collect(), token))
}

/// The least end of a job: it is gone.
async fn settle(session: &mut Connection, ids: &[i64], token: uuid::Uuid) -> Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let list = ids.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
    session.execute(sql::SETTLE, &[&format!("[{list}]"), &token]).await.map(drop).map_err(failed)
}

/// The numbers of rows, as JSON arrays.
fn batches(rows: u64, rows_each: u64) -> Vec<String> {
    let numbers: Vec<u64> = (1..=rows).collect();
    let text = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    numbers.chunks(rows_each as usize).map(|numbers| format!("[{}]", text(numbers))).collect()
}

async fn run(session: &mut Connection, sql: &str) -> Result<()> {
    session.simple_query(sql).await.map_err(failed)?.into_results().await.map(drop).map_err(failed)
}

async fn number(session: &mut Connection, sql: &str) -> Result<Option<i64>> {
    let row = session.simple_query(sql).await.map_err(failed)?.into_row().await.map_err(failed)?;
    Ok(row.and_then(|row| row.get::<i64, _>("n")))
}

fn failed(error: tiberius::error::Error) -> Error {
    let kind = match error.code() {
        Some(229 | 230 | 262) => ErrorKind::PermissionDenied,
        Some(50000) => ErrorKind::Conflict,
        Some(_) => ErrorKind::Internal,
        None => ErrorKind::Unavailable,
    };
    Error::new(kind, format!("the floor: {error}")).with_source(error)
}
