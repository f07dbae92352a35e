//! W6: what workers cost that have nothing to do, and how late a job starts that becomes due while they sleep.

use std::time::{Duration, Instant};

use time::OffsetDateTime;
use tokio::sync::mpsc;
use turno::{Event, Hook, Worker};

use super::Bench;
use super::figure::{Figure, percentile};
use super::kit::{Noop, jobs, queue};
use super::process::own_cpu;

/// Slots of the one worker, and later workers with ten slots each.
const WORKERS: usize = 50;
/// Jobs that become due, one after the other, at most.
const DUE_JOBS: u32 = 20;
/// How long a job that is due may take to be claimed before the worker counts as stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// Tells how late jobs were claimed, by the database's clock, and how long the claim took to answer.
struct Lateness(mpsc::UnboundedSender<Duration>);

impl Hook for Lateness {
    fn event(&self, _at: Instant, event: &Event<'_>) {
        if let Event::Claimed { jobs, took } = event {
            for job in *jobs {
                let late = Duration::try_from(job.claimed_at - job.run_at).unwrap_or_default();
                // Nobody listens after the last job.
                let _ = self.0.send(late + *took);
            }
        }
    }
}

impl Bench<'_> {
    /// Runs W6.
    pub(super) async fn idle(&mut self) -> anyhow::Result<()> {
        let queue = queue("idle");
        self.watch_idle(&queue, 1, WORKERS, Some((1.0, 1.0))).await?;
        self.watch_idle(&queue, WORKERS, 10, None).await?;
        self.become_due(&queue).await
    }

    /// Watches some idle workers of this process; the limits are statements a second and percent of a core.
    async fn watch_idle(
        &mut self,
        queue: &str,
        workers: usize,
        slots: usize,
        limits: Option<(f64, f64)>,
    ) -> anyhow::Result<()> {
        let build = |_| {
            let worker = Worker::builder(self.backend.clone()).queue(queue).concurrency(slots);
            worker.handler("noop", async |_context, _noop: Noop| Ok(())).build()
        };
        let built = (0..workers).map(build).collect::<turno::Result<Vec<Worker>>>()?;
        let handles: Vec<_> = built.iter().map(Worker::handle).collect();
        let running: Vec<_> = built.into_iter().map(|worker| tokio::spawn(worker.run())).collect();
        // Longer than the pauses take to grow to their longest.
        tokio::time::sleep(self.sizes.watch.min(Duration::from_secs(3))).await;
        let before = self.floor.counters().await?;
        let (begun, cpu) = (Instant::now(), own_cpu());
        tokio::time::sleep(self.sizes.watch).await;
        let cpu = own_cpu().saturating_sub(cpu);
        let after = self.floor.counters().await?;
        let seconds = begun.elapsed().as_secs_f64();
        handles.iter().for_each(turno::WorkerHandle::shutdown);
        for worker in running {
            worker.await??;
        }
        let what = format!("{workers} idle workers, {slots} slots each");
        let percent = 100.0 * cpu.as_secs_f64() / self.sizes.watch.as_secs_f64();
        let figure = Figure::new("W6", format!("{what}: client"), percent, "% of a core");
        self.print(&limits.map_or(figure.clone(), |(_, most)| figure.at_most(most)))?;
        if let (Some(before), Some(after)) = (before, after) {
            // The benchmark's own looks at the counters are two of them.
            let statements = (after.transactions - before.transactions - 2).max(0) as f64;
            let figure = Figure::new("W6", format!("{what}: statements"), statements / seconds, "/s");
            self.print(&limits.map_or(figure.clone(), |(most, _)| figure.at_most(most)))?;
        }
        Ok(())
    }

    async fn become_due(&mut self, queue: &str) -> anyhow::Result<()> {
        let (sender, mut late) = mpsc::unbounded_channel();
        let worker = Worker::builder(self.backend.clone())
            .queue(queue)
            .hook(Lateness(sender))
            .handler("noop", async |_context, _noop: Noop| Ok(()))
            .build()?;
        let handle = worker.handle();
        let running = tokio::spawn(worker.run());
        let mut times = Vec::new();
        for i in 0..DUE_JOBS.min(self.sizes.wakes) {
            // Beyond and within the longest pause, at no even rhythm.
            let ahead = time::Duration::milliseconds(400 + (i64::from(i) * 370) % 1700);
            self.backend.enqueue(&jobs(queue, 1, Some(OffsetDateTime::now_utc() + ahead))).await?;
            let time = tokio::time::timeout(PATIENCE, late.recv()).await?;
            times.push(time.ok_or_else(|| anyhow::anyhow!("the worker ended"))?.as_secs_f64() * 1e3);
        }
        handle.shutdown();
        running.await??;
        let figure = Figure::new("W6", "due to claimed, p99", percentile(&times, 0.99), "ms")
            .at_most(50.0)
            .detail("p50_ms", percentile(&times, 0.5));
        self.print(&figure)
    }
}
