//! W2: drain waiting no-op jobs with the real worker, for each way to keep what ended, against claim and delete by plain
//! SQL.

use turno::Engine;
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
            }
            let jobs = (n * u64::from(self.sizes.rounds)) as f64;
            let figure =
                Figure::spread("W2", format!("drain, {}", kept.as_str()), Spread::of(&ours), "jobs/s")
                    .floor("claim and delete", Spread::of(&floor))
                    .at_least(self.target(kept))
                    .detail("client_us_per_job", cpu * 1e6 / jobs)
                    .detail("jobs_per_claim", jobs / claims as f64);
            let figure = match self.backend.engine() {
                Engine::Postgres => figure
                    .detail("server_us_per_job", server * 1e6 / jobs)
                    .detail("wal_bytes_per_job", cost.wal_bytes as f64 / jobs)
                    .detail("dead_rows_per_job", cost.dead_rows as f64 / jobs),
                _ => figure,
            };
            self.print(&figure)?;
        }
        Ok(())
    }

    fn target(&self, kept: Kept) -> f64 {
        match (self.backend.engine(), kept) {
            (Engine::Sqlite, _) => 0.5,
            (_, Kept::History) => 0.7,
            (_, Kept::Receipt) => 0.75,
            (_, Kept::Nothing) => 0.85,
        }
    }
}
