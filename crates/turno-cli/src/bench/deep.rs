//! W5: a few jobs of a deep queue against the same few of a shallow one, and behind many that have ended or are not due.

use time::OffsetDateTime;

use super::Bench;
use super::figure::{Figure, Spread};
use super::kit::{queue, rate};

/// Jobs of one measurement.
const FEW: u64 = 5000;
/// Long after the benchmark.
const NOT_DUE: time::Duration = time::Duration::days(1);

impl Bench<'_> {
    /// Runs W5.
    pub(super) async fn deep(&mut self) -> anyhow::Result<()> {
        let few = FEW.min(self.sizes.deep);
        let (shallow_queue, deep_queue) = (queue("shallow"), queue("deep"));
        let most = self.sizes.deep.max(few * u64::from(2 * self.sizes.rounds));
        self.fill(&deep_queue, most, None).await?;
        let (mut shallow, mut deep) = (Vec::new(), Vec::new());
        for _ in 0..self.sizes.rounds {
            // Jobs that were enqueued just now would be in every cache, and those of the deep queue are not.
            self.fill(&shallow_queue, few, None).await?;
            self.floor.sweep().await?;
            shallow.push(self.drain_few(&shallow_queue, few).await?);
            self.floor.sweep().await?;
            deep.push(self.drain_few(&deep_queue, few).await?);
        }
        let name = format!("{few} jobs with {most} waiting");
        let figure = Figure::spread("W5", name, Spread::of(&deep), "jobs/s");
        self.print(&figure.floor(format!("with {few} waiting"), Spread::of(&shallow)).at_least(0.9))?;
        self.behind_others(&shallow_queue, &deep_queue, few).await
    }

    /// The same with as many jobs that have ended, and as many that are not due.
    async fn behind_others(&mut self, shallow_queue: &str, deep_queue: &str, few: u64) -> anyhow::Result<()> {
        let run_at = OffsetDateTime::now_utc() + NOT_DUE;
        self.fill(deep_queue, self.sizes.deep, Some(run_at)).await?;
        let crew = self.crew(deep_queue, self.sizes.deep).await?;
        while !crew.is_idle() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        crew.stop().await?;
        self.floor.sweep().await?;
        let (mut shallow, mut behind) = (Vec::new(), Vec::new());
        for _ in 0..self.sizes.rounds {
            shallow.push(self.few(shallow_queue, few).await?);
            behind.push(self.few(deep_queue, few).await?);
            shallow.push(self.few(shallow_queue, few).await?);
        }
        let others = self.sizes.deep;
        let name = format!("{few} jobs with {others} ended, {others} not due");
        let figure = Figure::spread("W5", name, Spread::of(&behind), "jobs/s");
        self.print(&figure.floor("without them", Spread::of(&shallow)).at_least(0.9))
    }

    async fn few(&self, queue: &str, few: u64) -> anyhow::Result<f64> {
        self.fill(queue, few, None).await?;
        self.drain_few(queue, few).await
    }

    /// Without prefetch: of a deep queue it would claim many jobs more than are counted.
    async fn drain_few(&self, queue: &str, few: u64) -> anyhow::Result<f64> {
        let crew = self.crew_ahead(queue, few, 0).await?;
        crew.settled(few).await?;
        Ok(rate(few, crew.stop().await?.took))
    }
}
