//! W2: drain waiting no-op jobs with the real worker, for each way to keep what ended, against claim and delete by plain
//! SQL.

use std::time::{Duration, Instant};

use turno::{ClaimRequest, Completion, Engine};
use turno_floor::Counters;

use super::Bench;
use super::figure::{Figure, Spread};
use super::kit::{Kept, rate};

impl Bench<'_> {
    /// Runs W2.
    pub(super) async fn drain(&mut self) -> anyhow::Result<()> {
        let (n, batch) = (self.sizes.jobs, self.args.batch);
        for kept in Kept::ALL {
            let queue = self.queue_keeping(kept).await?;
            let mut floor = vec![rate(n, self.floor.drain(n, batch).await?)];
            let mut calls = Vec::new();
            let (mut ours, mut cpu, mut server, mut claims) = (Vec::new(), 0.0, 0.0, 0);
            let mut cost = Counters::default();
            for _ in 0..self.sizes.rounds {
                self.fill(&queue, n, None).await?;
                let before = self.floor.counters().await?.unwrap_or_default();
                let sessions = self.server_cpu().await?;
                let drained = self.drain_queue(&queue, n).await?;
                server += self.server_cpu_since(&sessions).await?.as_secs_f64();
                let after = self.floor.counters().await?.unwrap_or_default();
                ours.push(rate(n, drained.took));
                cpu += drained.client_cpu.as_secs_f64();
                claims += drained.claims;
                cost.wal_bytes += after.wal_bytes - before.wal_bytes;
                cost.dead_rows += after.dead_rows - before.dead_rows;
                self.floor.clear().await?;
                self.queue_keeping(kept).await?;
                floor.push(rate(n, self.floor.drain(n, batch).await?));
                if self.backend.engine() == Engine::Sqlite {
                    calls.push(rate(n, self.drain_by_calls(&queue, n).await?));
                }
            }
            let jobs = (n * u64::from(self.sizes.rounds)) as f64;
            let figure =
                Figure::spread("W2", format!("drain, {}", kept.as_str()), Spread::of(&ours), "jobs/s")
                    .detail("client_us_per_job", cpu * 1e6 / jobs)
                    .detail("jobs_per_claim", jobs / claims as f64);
            if !calls.is_empty() {
                let of_calls =
                    figure.clone().floor("the same statements without a worker", Spread::of(&calls));
                self.print(&of_calls.at_least(0.5))?;
            }
            let figure = figure.floor("claim and delete", Spread::of(&floor));
            let figure = match self.backend.engine() {
                Engine::Sqlite => figure,
                Engine::Postgres => figure
                    .at_least(target(kept))
                    .detail("server_us_per_job", server * 1e6 / jobs)
                    .detail("wal_bytes_per_job", cost.wal_bytes as f64 / jobs)
                    .detail("dead_rows_per_job", cost.dead_rows as f64 / jobs),
                _ => figure.at_least(0.6),
            };
            self.print(&figure)?;
        }
        Ok(())
    }

    /// Claims and completes by plain calls, one after the other: the statements of turno without its runtime.
    async fn drain_by_calls(&self, queue: &str, n: u64) -> anyhow::Result<Duration> {
        self.fill(queue, n, None).await?;
        let begun = Instant::now();
        loop {
            let jobs =
                self.backend.claim(&ClaimRequest::one(queue, "bench").limit(self.args.batch)).await?.jobs;
            if jobs.is_empty() {
                break;
            }
            let done: Vec<_> = jobs.iter().map(|job| Completion { proof: job.proof, result: None }).collect();
            self.backend.complete("bench", &done).await?;
        }
        let took = begun.elapsed();
        self.floor.clear().await?;
        Ok(took)
    }
}

/// On PostgreSQL.
fn target(kept: Kept) -> f64 {
    match kept {
        Kept::History => 0.7,
        Kept::Receipt => 0.75,
        Kept::Nothing => 0.85,
    }
}
