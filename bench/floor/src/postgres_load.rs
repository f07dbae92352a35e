//! The raw work on PostgreSQL: COPY, claim and delete, ring and claim. It refuses to do more than the least that any
//! queue must: no retries, no history, no fence beyond a token.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures_util::SinkExt;
use tokio::sync::Notify;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Statement};
use turno_contract::{Result, Token};

use crate::postgres::{PostgresFloor, failed, sql};
use crate::{Progress, join};

/// Bytes of one piece of a COPY.
const CHUNK_BYTES: usize = 64 * 1024;
/// Rows of one COPY while jobs are drained at the same time.
const PRODUCE_ROWS: u64 = 1000;

impl PostgresFloor {
    /// Copies so many lines in.
    pub(crate) async fn copy(&self, sql: &str, rows: u64, line: impl Fn(u64) -> String) -> Result<Duration> {
        let mut chunks = Vec::new();
        let mut chunk = BytesMut::with_capacity(CHUNK_BYTES + 1024);
        for i in 1..=rows {
            chunk.extend_from_slice(line(i).as_bytes());
            if chunk.len() >= CHUNK_BYTES {
                chunks.push(chunk.split().freeze());
            }
        }
        chunks.push(chunk.freeze());
        let begun = Instant::now();
        copy_chunks(&self.client, sql, chunks).await?;
        Ok(begun.elapsed())
    }

    /// So many ready jobs, and nothing else.
    pub(crate) async fn fill(&self, jobs: u64) -> Result<()> {
        self.client.batch_execute("TRUNCATE turno_floor.lease").await.map_err(failed)?;
        self.copy(sql::COPY_LEASE, jobs, lease_line).await?;
        self.client.batch_execute("ANALYZE turno_floor.lease").await.map_err(failed)
    }

    /// Puts jobs in, a thousand in a transaction.
    pub(crate) async fn produce(&self, jobs: u64) -> Result<()> {
        let mut next = 1;
        while next <= jobs {
            let end = jobs.min(next + PRODUCE_ROWS - 1);
            let lines: String = (next..=end).map(lease_line).collect();
            copy_chunks(&self.client, sql::COPY_LEASE, vec![Bytes::from(lines)]).await?;
            next = end + 1;
        }
        Ok(())
    }

    /// Claims and deletes until nothing is left, or until so many are done.
    pub(crate) async fn drain_with(
        &self,
        sessions: [Client; 2],
        batch: u32,
        total: Option<u64>,
    ) -> Result<()> {
        let progress = Progress::until(total);
        let tasks = sessions.map(|client| {
            let progress = Arc::clone(&progress);
            tokio::spawn(async move {
                let lease = Lease::prepare(&client).await?;
                loop {
                    let ids = lease.claim(&client, batch).await?;
                    lease.settle(&client, &ids).await?;
                    if !progress.goes_on(ids.0.len()).await {
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

    /// Each round: one job and a ring are committed; the sleeper hears it and claims the job.
    pub(crate) async fn wake_rounds(
        &self,
        sleeper: &Client,
        rang: &Notify,
        rounds: u32,
    ) -> Result<Vec<Duration>> {
        let lease = Lease::prepare(sleeper).await?;
        let ring = self.client.prepare_typed(sql::RING, &[Type::INT8]).await.map_err(failed)?;
        let mut times = Vec::new();
        for round in 1..=i64::from(rounds) {
            // Long enough for the sleeper to be asleep, at no even rhythm.
            tokio::time::sleep(Duration::from_millis(fastrand::u64(10..40))).await;
            let committed = async {
                self.client.execute(&ring, &[&round]).await.map_err(failed)?;
                Ok(Instant::now())
            };
            let claimed = async {
                rang.notified().await;
                let ids = lease.claim(sleeper, 1).await?;
                Ok((Instant::now(), ids))
            };
            let (committed, (claimed, ids)) = tokio::try_join!(committed, claimed)?;
            times.push(claimed.saturating_duration_since(committed));
            lease.settle(sleeper, &ids).await?;
        }
        Ok(times)
    }
}

/// The two statements of a worker.
struct Lease {
    claim: Statement,
    settle: Statement,
}

/// Jobs and the token that holds them.
struct Held(Vec<i64>, Token);

impl Lease {
    async fn prepare(client: &Client) -> Result<Self> {
        Ok(Lease {
            claim: client.prepare_typed(sql::CLAIM, &[Type::UUID, Type::INT8]).await.map_err(failed)?,
            settle: client
                .prepare_typed(sql::SETTLE, &[Type::INT8_ARRAY, Type::UUID])
                .await
                .map_err(failed)?,
        })
    }

    async fn claim(&self, client: &Client, batch: u32) -> Result<Held> {
        let token = Token::random();
        let limit = i64::from(batch);
        let rows = client.query(&self.claim, &[&token.as_uuid(), &limit]).await.map_err(failed)?;
        Ok(Held(rows.iter().map(|row| row.get(0)).collect(), token))
    }

    async fn settle(&self, client: &Client, held: &Held) -> Result<()> {
        if !held.0.is_empty() {
            client.execute(&self.settle, &[&held.0, &held.1.as_uuid()]).await.map_err(failed)?;
        }
        Ok(())
    }
}

async fn copy_chunks(client: &Client, sql: &str, chunks: Vec<Bytes>) -> Result<()> {
    let sink = client.copy_in(sql).await.map_err(failed)?;
    let mut sink = std::pin::pin!(sink);
    for chunk in chunks {
        sink.feed(chunk).await.map_err(failed)?;
    }
    sink.finish().await.map_err(failed)?;
    Ok(())
}

fn lease_line(i: u64) -> String {
    format!("{i}\t{i}\t{{\"n\":{i}}}\n")
}
