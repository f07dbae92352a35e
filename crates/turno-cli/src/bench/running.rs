//! W7: what it costs to keep many running jobs alive by heartbeats.

use std::time::Duration;

use tokio::sync::watch;
use turno::{Context, Worker};

use super::Bench;
use super::figure::Figure;
use super::kit::{Noop, queue};
use super::process::own_cpu;

/// How long the jobs are held without a heartbeat.
const LEASE: Duration = Duration::from_secs(30);
/// How long it may take until all of them run.
const PATIENCE: Duration = Duration::from_secs(120);

impl Bench<'_> {
    /// Runs W7.
    pub(super) async fn running(&mut self) -> anyhow::Result<()> {
        let (queue, n) = (queue("running"), self.sizes.running);
        self.fill(&queue, n as u64, None).await?;
        let (end, _) = watch::channel(false);
        let ends = end.clone();
        let worker = Worker::builder(self.backend.clone())
            .queue(&queue)
            .concurrency(n)
            .lease(LEASE)
            .settle_batch(500)
            .handler("noop", move |_context: Context, _noop: Noop| {
                let mut ended = ends.subscribe();
                async move {
                    // It errs only if the benchmark is gone, and then the job has ended as well.
                    let _ = ended.wait_for(|ended| *ended).await;
                    Ok(())
                }
            })
            .build()?;
        let handle = worker.handle();
        let task = tokio::spawn(worker.run());
        let all_run = async {
            while handle.metrics().running < n as u64 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, all_run).await?;
        let (client, server) = self.cpu_of_a_while().await?;
        let lost = handle.metrics().leases_lost;
        // Handlers that have ended already do not listen.
        let _ = end.send(true);
        while handle.metrics().succeeded < n as u64 && !task.is_finished() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        handle.shutdown();
        task.await??;
        let percent = |time: Duration| 100.0 * time.as_secs_f64() / self.sizes.watch.as_secs_f64();
        let total = client + server.unwrap_or_default();
        let mut figure =
            Figure::new("W7", format!("{n} running jobs kept alive"), percent(total), "% of a core")
                .at_most(5.0)
                .detail("client", percent(client))
                .detail("leases_lost", lost);
        figure = match server {
            Some(server) => figure.detail("server", percent(server)),
            None => figure.detail("server", "not on this machine"),
        };
        self.print(&figure)
    }

    /// Processor time of this process, and of the server's sessions if they can be seen.
    async fn cpu_of_a_while(&self) -> anyhow::Result<(Duration, Option<Duration>)> {
        let (client_before, sessions) = (own_cpu(), self.server_cpu().await?);
        tokio::time::sleep(self.sizes.watch).await;
        let client = own_cpu().saturating_sub(client_before);
        let server = self.server_cpu_since(&sessions).await?;
        Ok((client, (!sessions.is_empty()).then_some(server)))
    }
}
