//! What the workloads share: queues of their own, filling and draining them, and a bar on a terminal.

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use turno::{
    BoxedBackend, Context, Event, Hook, JobError, Keep, NewJob, Report, SettingsChange, Worker,
    WorkerBuilder, WorkerHandle,
};
use turno_floor::QUEUE_PREFIX;

use super::Bench;

/// A worker that has not settled everything after this long is stuck.
const PATIENCE: Duration = Duration::from_secs(600);

/// Claims ahead by default: the next ones are on their way while the last one is worked on.
const PREFETCH_BATCHES: usize = 6;

/// What a job carries.
#[derive(Debug, Serialize, Deserialize)]
pub struct Noop {
    /// Its number.
    pub n: u64,
}

/// What is kept of a job that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// The default: the job with its payload for a day.
    History,
    /// Retention 0: what tells a repeat from theft.
    Receipt,
    /// Retention and receipts 0.
    Nothing,
}

impl Kept {
    /// All of them.
    pub const ALL: [Kept; 3] = [Kept::History, Kept::Receipt, Kept::Nothing];

    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Kept::History => "history kept",
            Kept::Receipt => "receipts only",
            Kept::Nothing => "receipts off",
        }
    }
}

/// The name of a benchmark's own queue.
pub fn queue(name: &str) -> String {
    format!("{QUEUE_PREFIX}{name}")
}

/// New jobs that are due now, or at this instant.
pub fn jobs(queue: &str, n: u64, run_at: Option<OffsetDateTime>) -> Vec<NewJob> {
    let job = |n| {
        let job = NewJob::new(queue, "noop", format!("{{\"n\":{n}}}"));
        if let Some(run_at) = run_at { job.run_at(run_at) } else { job }
    };
    (0..n).map(job).collect()
}

/// How a drain went.
pub struct Drained {
    /// From the worker's start to the last settle.
    pub took: Duration,
    /// Processor time of this process, the client.
    pub client_cpu: Duration,
    /// Claims of all workers.
    pub claims: u64,
}

/// Counts settled jobs and tells when there are enough.
#[derive(Debug)]
struct Until {
    done: AtomicU64,
    enough: AtomicU64,
    reached: Notify,
    bar: ProgressBar,
}

/// The hook of one worker.
struct Listener(Arc<Until>);

impl Hook for Listener {
    fn event(&self, _at: Instant, event: &Event<'_>) {
        if let Event::Settled { .. } = event {
            let done = self.0.done.fetch_add(1, Ordering::SeqCst) + 1;
            if done == self.0.enough.load(Ordering::SeqCst) {
                self.0.reached.notify_one();
            }
            if done.is_multiple_of(1000) {
                self.0.bar.inc(1000);
            }
        }
    }
}

/// Workers that drain a queue until they are told to stop.
pub struct Crew {
    until: Arc<Until>,
    handles: Vec<WorkerHandle>,
    running: Vec<JoinHandle<turno::Result<Report>>>,
    begun: Instant,
    cpu: Duration,
}

impl Crew {
    /// Waits until so many jobs have been settled since the beginning.
    pub async fn settled(&self, jobs: u64) -> anyhow::Result<()> {
        self.until.enough.store(jobs, Ordering::SeqCst);
        let waited = tokio::time::timeout(PATIENCE, async {
            while self.until.done.load(Ordering::SeqCst) < jobs {
                self.until.reached.notified().await;
            }
        });
        waited.await.map_err(|_| anyhow::anyhow!("the worker did not settle its jobs within {PATIENCE:?}"))
    }

    /// Whether nothing is left to do.
    pub fn is_idle(&self) -> bool {
        self.handles.iter().all(WorkerHandle::is_idle)
    }

    /// Stops them; what they did until now counts.
    pub async fn stop(self) -> anyhow::Result<Drained> {
        let (took, client_cpu) = (self.begun.elapsed(), super::process::own_cpu().saturating_sub(self.cpu));
        self.handles.iter().for_each(WorkerHandle::shutdown);
        for worker in self.running {
            worker.await??;
        }
        self.until.bar.finish_and_clear();
        let claims = self.handles.iter().map(|handle| handle.metrics().claims).sum();
        Ok(Drained { took, client_cpu, claims })
    }
}

impl Bench<'_> {
    /// A bar on a terminal, nothing elsewhere.
    pub(super) fn bar(&self, what: &str, length: u64) -> ProgressBar {
        if !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new(length);
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}") {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        bar
    }

    /// Sets what a queue keeps; answers its name.
    pub(super) async fn queue_keeping(&self, kept: Kept) -> anyhow::Result<String> {
        let name = match kept {
            Kept::History => "history",
            Kept::Receipt => "receipt",
            Kept::Nothing => "nothing",
        };
        let name = queue(name);
        let keep =
            |time| SettingsChange { keep_succeeded: Some(Keep::For(time)), ..SettingsChange::default() };
        match kept {
            Kept::History => {}
            Kept::Receipt => _ = self.backend.queue_set(Some(&name), &keep(Duration::ZERO)).await?,
            Kept::Nothing => {
                let change = SettingsChange { receipts: Some(Duration::ZERO), ..keep(Duration::ZERO) };
                self.backend.queue_set(Some(&name), &change).await?;
            }
        }
        Ok(name)
    }

    /// Enqueues so many jobs; answers how long the calls took.
    pub(super) async fn fill(
        &self,
        queue: &str,
        n: u64,
        run_at: Option<OffsetDateTime>,
    ) -> anyhow::Result<Duration> {
        let bar = self.bar("enqueue", n);
        let (mut left, mut took) = (n, Duration::ZERO);
        while left > 0 {
            let batch = jobs(queue, left.min(self.args.enqueue_batch), run_at);
            let begun = Instant::now();
            self.backend.enqueue(&batch).await?;
            took += begun.elapsed();
            left -= batch.len() as u64;
            bar.inc(batch.len() as u64);
        }
        bar.finish_and_clear();
        Ok(took)
    }

    /// The settings of the workers that drain.
    pub(super) fn worker(&self, backend: &BoxedBackend, queue: &str, prefetch: usize) -> WorkerBuilder<()> {
        let batch = self.args.batch as usize;
        Worker::builder(Arc::clone(backend))
            .queue(queue)
            .concurrency(batch)
            .prefetch(prefetch)
            .settle_batch(batch)
            .handler("noop", noop)
    }

    /// More connections, for all workers but the first.
    pub(super) async fn backends(&self) -> anyhow::Result<Vec<BoxedBackend>> {
        let mut backends = vec![Arc::clone(&self.backend)];
        for _ in 1..self.args.workers {
            backends.push(turno::connect(&self.url).await?);
        }
        Ok(backends)
    }

    /// Processor time so far of each of the server's sessions that can be seen.
    pub(super) async fn server_cpu(&self) -> anyhow::Result<HashMap<u32, Duration>> {
        let pids = self.floor.server_processes().await?;
        Ok(pids.into_iter().filter_map(|pid| Some((pid, super::process::cpu(pid)?))).collect())
    }

    /// What those sessions, and any that began since, have used meanwhile.
    pub(super) async fn server_cpu_since(&self, before: &HashMap<u32, Duration>) -> anyhow::Result<Duration> {
        let after = self.server_cpu().await?;
        let used =
            |(pid, cpu): (&u32, &Duration)| cpu.saturating_sub(before.get(pid).copied().unwrap_or_default());
        Ok(after.iter().map(used).sum())
    }

    /// Workers on this queue, for as long as it takes.
    pub(super) async fn crew(&self, queue: &str, jobs: u64) -> anyhow::Result<Crew> {
        let ahead = PREFETCH_BATCHES * self.args.batch as usize;
        self.crew_ahead(queue, jobs, self.args.prefetch.unwrap_or(ahead)).await
    }

    /// Workers on this queue that claim so far ahead.
    pub(super) async fn crew_ahead(&self, queue: &str, jobs: u64, prefetch: usize) -> anyhow::Result<Crew> {
        let backends = self.backends().await?;
        let until = Arc::new(Until {
            done: AtomicU64::new(0),
            enough: AtomicU64::new(u64::MAX),
            reached: Notify::new(),
            bar: self.bar("drain", jobs),
        });
        let build =
            |backend| self.worker(backend, queue, prefetch).hook(Listener(Arc::clone(&until))).build();
        let workers = backends.iter().map(build).collect::<turno::Result<Vec<Worker>>>()?;
        let handles = workers.iter().map(Worker::handle).collect();
        let (begun, cpu) = (Instant::now(), super::process::own_cpu());
        let running = workers.into_iter().map(|worker| tokio::spawn(worker.run())).collect();
        Ok(Crew { until, handles, running, begun, cpu })
    }

    /// Lets new workers settle so many jobs that wait.
    pub(super) async fn drain_queue(&self, queue: &str, jobs: u64) -> anyhow::Result<Drained> {
        let crew = self.crew(queue, jobs).await?;
        crew.settled(jobs).await?;
        crew.stop().await
    }
}

async fn noop(_context: Context, noop: Noop) -> Result<(), JobError> {
    std::hint::black_box(noop.n);
    Ok(())
}

/// How many a second.
pub fn rate(n: u64, took: Duration) -> f64 {
    n as f64 / took.as_secs_f64()
}
