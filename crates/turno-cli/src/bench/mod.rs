//! `turno bench`: measures the installation that it is pointed at, with the real worker runtime and the whole contract on,
//! and the floor of the same machine before and after, so that a figure is also a ratio. It refuses to switch off
//! anything that a queue relies on, and to leave anything behind.

mod deep;
mod drain;
mod enqueue;
mod figure;
mod held;
mod idle;
mod kit;
mod mix;
mod options;
mod process;
mod running;
mod wake;

use turno::BoxedBackend;
use turno_floor::Floor;

pub use self::options::Args;
use self::options::{Sizes, Workload};
use crate::args::App;
use crate::exit::Exit;

/// What every workload works with.
struct Bench<'a> {
    app: &'a mut App,
    url: String,
    backend: BoxedBackend,
    floor: Box<dyn Floor>,
    sizes: Sizes,
    args: Args,
}

/// Runs the workloads, one figure a line.
pub async fn run(app: &mut App, args: Args) -> anyhow::Result<Exit> {
    let location = app.location()?;
    let (url, backend) = (location.url().to_owned(), location.connect().await?);
    // Asks for the schema first: without one there is nothing to measure, and the error says what to do.
    backend.queue_list().await?;
    let floor = turno_floor::connect(&url, backend.engine()).await?;
    let sizes = Sizes::of(&args, backend.engine());
    let mut bench = Bench { app, url, backend, floor, sizes, args };
    let outcome = bench.all().await;
    let cleared = bench.floor.clear().await;
    let removed = bench.floor.remove().await;
    outcome?;
    cleared?;
    removed?;
    Ok(Exit::Ok)
}

impl Bench<'_> {
    async fn all(&mut self) -> anyhow::Result<()> {
        self.floor.clear().await?;
        self.introduce().await?;
        for workload in self.args.workloads() {
            match workload {
                Workload::W1 => self.enqueue().await?,
                Workload::W2 => self.drain().await?,
                Workload::W3 => self.wake().await?,
                Workload::W4 => self.held().await?,
                Workload::W5 => self.deep().await?,
                Workload::W6 => self.idle().await?,
                Workload::W7 => self.running().await?,
                Workload::Mix => self.mix().await?,
            }
            self.floor.clear().await?;
        }
        Ok(())
    }
}
