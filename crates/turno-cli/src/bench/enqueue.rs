//! W1: enqueue in bulk, against COPY (or a prepared INSERT) into the same table and into a bare one.

use turno::Engine;

use super::Bench;
use super::figure::{Figure, Spread};
use super::kit::{queue, rate};

impl Bench<'_> {
    /// Runs W1.
    pub(super) async fn enqueue(&mut self) -> anyhow::Result<()> {
        let n = self.sizes.jobs;
        let queue = queue("enqueue");
        let (mut bare, mut same, mut ours) = (Vec::new(), Vec::new(), Vec::new());
        bare.push(rate(n, self.floor.insert_bare(n).await?));
        same.push(rate(n, self.floor.insert_same(n).await?));
        for _ in 0..self.sizes.rounds {
            ours.push(rate(n, self.fill(&queue, n, None).await?));
            self.floor.clear().await?;
            bare.push(rate(n, self.floor.insert_bare(n).await?));
            same.push(rate(n, self.floor.insert_same(n).await?));
        }
        let ours = Spread::of(&ours);
        let name = "enqueue in bulk";
        let figure = Figure::spread("W1", name, ours, "jobs/s");
        let postgres = self.backend.engine() == Engine::Postgres;
        let of_same = figure.clone().floor("insert into the same table", Spread::of(&same));
        self.print(&of_same.at_least(if postgres { 0.8 } else { 0.5 }))?;
        let of_bare = figure.floor("insert into a bare table", Spread::of(&bare));
        self.print(&if postgres { of_bare.at_least(0.25) } else { of_bare })
    }
}
