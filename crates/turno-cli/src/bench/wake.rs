//! W3: one job at a time to a worker that sleeps, from commit to the start of the handler, against a ring and one durable
//! claim.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use turno::{Event, Hook, Worker};

use super::Bench;
use super::figure::{Figure, Spread, percentile};
use super::kit::{Noop, jobs, queue};

/// How long a job that is due may take to start before the worker counts as stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// Tells when handlers start.
struct Starts(mpsc::UnboundedSender<Instant>);

impl Hook for Starts {
    fn event(&self, at: Instant, event: &Event<'_>) {
        if let Event::Started { .. } = event {
            // Nobody listens after the last round.
            let _ = self.0.send(at);
        }
    }
}

impl Bench<'_> {
    /// Runs W3.
    pub(super) async fn wake(&mut self) -> anyhow::Result<()> {
        let mut floor = self.floor.wake(self.sizes.wakes).await?;
        let ours = self.wakes().await?;
        floor.extend(self.floor.wake(self.sizes.wakes).await?);
        let (ours, floor) = (milliseconds(&ours), milliseconds(&floor));
        let tail = percentile(&ours, 0.99);
        let floor_tail = percentile(&floor, 0.99);
        let floor = Spread::of(&floor);
        let figure = Figure::new("W3", "commit to handler start, p50", percentile(&ours, 0.5), "ms")
            .floor("ring and claim", floor)
            .at_most(1.5)
            .detail("p99_ms", tail)
            .detail("floor_p99_ms", floor_tail);
        self.print(&figure)
    }

    async fn wakes(&self) -> anyhow::Result<Vec<Duration>> {
        let queue = queue("wake");
        let (starts, mut started) = mpsc::unbounded_channel();
        let worker = Worker::builder(self.backend.clone())
            .queue(&queue)
            .hook(Starts(starts))
            .handler("noop", async |_context, _noop: Noop| Ok(()))
            .build()?;
        let handle = worker.handle();
        let running = tokio::spawn(worker.run());
        // A producer is another process in life.
        let producer = turno::connect(&self.url).await?;
        let bar = self.bar("wake", self.sizes.wakes.into());
        let mut times = Vec::new();
        for _ in 0..self.sizes.wakes {
            while !handle.is_idle() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            // Long enough for the worker to be asleep, at no even rhythm.
            tokio::time::sleep(Duration::from_millis(u64::from(rand()) % 30 + 10)).await;
            producer.enqueue(&jobs(&queue, 1, None)).await?;
            let committed = Instant::now();
            let start = tokio::time::timeout(PATIENCE, started.recv()).await?;
            let start = start.ok_or_else(|| anyhow::anyhow!("the worker ended"))?;
            times.push(start.saturating_duration_since(committed));
            bar.inc(1);
        }
        bar.finish_and_clear();
        handle.shutdown();
        running.await??;
        Ok(times)
    }
}

/// Some number, from the clock's last digits.
fn rand() -> u32 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.subsec_nanos() / 100)
}

fn milliseconds(times: &[Duration]) -> Vec<f64> {
    times.iter().map(|time| time.as_secs_f64() * 1e3).collect()
}
