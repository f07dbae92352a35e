//! W1 and W2 at the same time: one producer and the workers, against COPY beside claim and delete.

use std::time::Instant;

use turno::Engine;

use super::Bench;
use super::figure::{Figure, Spread};
use super::kit::{jobs, queue, rate};

/// Jobs in one call of enqueue, as the floor copies them.
const PRODUCE_JOBS: u64 = 1000;

impl Bench<'_> {
    /// Runs the mix.
    pub(super) async fn mix(&mut self) -> anyhow::Result<()> {
        let (n, batch) = (self.sizes.jobs, self.args.batch);
        let queue = queue("mix");
        // A producer is another process in life, so it has connections of its own.
        let producer = turno::connect(&self.url).await?;
        let mut floor = vec![rate(n, self.floor.mix(n, batch).await?)];
        let mut ours = Vec::new();
        for _ in 0..self.sizes.rounds {
            let crew = self.crew(&queue, n).await?;
            let begun = Instant::now();
            let mut left = n;
            while left > 0 {
                let batch = jobs(&queue, left.min(PRODUCE_JOBS), None);
                producer.enqueue(&batch).await?;
                left -= batch.len() as u64;
            }
            crew.settled(n).await?;
            ours.push(rate(n, begun.elapsed()));
            crew.stop().await?;
            self.floor.clear().await?;
            floor.push(rate(n, self.floor.mix(n, batch).await?));
        }
        let least = if self.backend.engine() == Engine::Postgres { 0.8 } else { 0.5 };
        let figure = Figure::spread("mix", "enqueue and drain at the same time", Spread::of(&ours), "jobs/s");
        self.print(&figure.floor("copy, claim and delete", Spread::of(&floor)).at_least(least))
    }
}
