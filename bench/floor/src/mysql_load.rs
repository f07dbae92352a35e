//! The raw work on MySQL and MariaDB: inserts of many rows, claim and delete. It refuses to do more than the least that any
//! queue must: no retries, no history, no fence beyond a token.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use turno_contract::{Result, Token};

use crate::mysql::{MysqlFloor, failed, sql};
use crate::{Progress, join};

/// Rows of one insert: some hundred kilobytes, less than any server's largest packet.
const INSERT_ROWS: u64 = 5000;
/// Rows of one insert while jobs are drained at the same time.
const PRODUCE_ROWS: u64 = 1000;
const INTO_LEASE: &str = "INSERT INTO turno_floor.lease (id, `rank`, payload) VALUES ";

impl MysqlFloor {
    /// Inserts so many rows, many in a statement.
    pub(crate) async fn insert(
        &self,
        into: &str,
        rows: u64,
        row: impl Fn(u64) -> String,
    ) -> Result<Duration> {
        let statements = statements(into, rows, INSERT_ROWS, row);
        let mut session = self.session.lock().await;
        let begun = Instant::now();
        for statement in statements {
            session.query_drop(statement).await.map_err(failed)?;
        }
        Ok(begun.elapsed())
    }

    /// So many ready jobs, and nothing else.
    pub(crate) async fn fill(&self, jobs: u64) -> Result<()> {
        self.run("TRUNCATE TABLE turno_floor.lease").await?;
        self.insert(INTO_LEASE, jobs, lease_row).await?;
        self.run("ANALYZE TABLE turno_floor.lease").await
    }

    /// Puts jobs in, a thousand in a transaction.
    pub(crate) async fn produce(&self, jobs: u64) -> Result<()> {
        for statement in statements(INTO_LEASE, jobs, PRODUCE_ROWS, lease_row) {
            self.run(&statement).await?;
        }
        Ok(())
    }

    /// Claims and deletes until nothing is left, or until so many are done.
    pub(crate) async fn drain_with(&self, sessions: [Conn; 2], batch: u32, total: Option<u64>) -> Result<()> {
        let progress = Progress::until(total);
        let tasks = sessions.map(|mut session| {
            let progress = Arc::clone(&progress);
            tokio::spawn(async move {
                loop {
                    let (ids, token) = claim(&mut session, batch).await?;
                    settle(&mut session, &ids, &token).await?;
                    if !progress.goes_on(ids.len()).await {
                        return Ok(());
                    }
                }
            })
        });
        for task in tasks {
            join(task).await?;
        }
        Ok(())
    }

    /// Each round: one job is committed and then claimed by another session. These servers have no ring to hear.
    pub(crate) async fn wake_rounds(&self, mut sleeper: Conn, rounds: u32) -> Result<Vec<Duration>> {
        let mut times = Vec::new();
        for round in 1..=u64::from(rounds) {
            self.run(&format!("{INTO_LEASE}{}", lease_row(round))).await?;
            let committed = Instant::now();
            let (ids, token) = claim(&mut sleeper, 1).await?;
            times.push(committed.elapsed());
            settle(&mut sleeper, &ids, &token).await?;
        }
        Ok(times)
    }
}

/// The least that gives each job to one caller only: lock the best, mark them, commit.
async fn claim(session: &mut Conn, batch: u32) -> Result<(Vec<i64>, String)> {
    let token = Token::random().as_uuid().simple().to_string();
    session.query_drop("START TRANSACTION").await.map_err(failed)?;
    let select = sql::CLAIM.replace("{limit}", &batch.to_string());
    let jobs: Vec<(i64, String)> = session.query(select).await.map_err(failed)?;
    let ids: Vec<i64> = jobs.iter().map(|(id, _)| *id).collect();
    if !ids.is_empty() {
        let update = sql::LEASE.replace("{token}", &token).replace("{ids}", &list(&ids));
        session.query_drop(update).await.map_err(failed)?;
    }
    session.query_drop("COMMIT").await.map_err(failed)?;
    Ok((ids, token))
}

/// The least end of a job: it is gone.
async fn settle(session: &mut Conn, ids: &[i64], token: &str) -> Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let delete = sql::SETTLE.replace("{token}", token).replace("{ids}", &list(ids));
    session.query_drop(delete).await.map_err(failed)
}

fn list(ids: &[i64]) -> String {
    ids.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}

fn statements(into: &str, rows: u64, rows_each: u64, row: impl Fn(u64) -> String) -> Vec<String> {
    let numbers: Vec<u64> = (1..=rows).collect();
    let statement = |numbers: &[u64]| {
        let rows: Vec<String> = numbers.iter().map(|i| row(*i)).collect();
        format!("{into}{}", rows.join(","))
    };
    numbers.chunks(rows_each as usize).map(statement).collect()
}

fn lease_row(i: u64) -> String {
    format!("({i},{i},'{{\"n\":{i}}}')")
}
