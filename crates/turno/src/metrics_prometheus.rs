//! Metrics in the terms of Prometheus: what workers do, fed by their hooks and counters, and the state of the queues,
//! asked of the database at each scrape. It refuses labels without a bound, and to open a port: an application serves
//! the text where it serves everything else, or registers the metrics with its own registry.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! # let folder = tempfile::tempdir()?;
//! # let backend = turno::connect(&format!("sqlite:{}", folder.path().join("jobs.db").display())).await?;
//! # backend.migrate(false).await?;
//! let metrics = turno::prometheus::Metrics::new();
//! let worker = turno::Worker::builder(backend.clone())
//!     .queue("mail")
//!     .handler("send", async |_, (): ()| Ok(()))
//!     .metrics(&metrics)
//!     .build()?;
//! // Everything is there before the first job.
//! assert!(metrics.render(backend.as_ref()).await.contains("turno_claims_total 0"));
//! # drop(worker);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })
//! # }
//! ```

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use turno_contract::Backend;

use crate::hook::Hook;
use crate::metrics_jobs::{Jobs, Recorder};
use crate::metrics_queues::{QueueCollector, Queues};
use crate::worker::WorkerHandle;

/// The type of what [`Metrics::render`] answers.
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// The metrics of a process. Cheap to clone; the clones are the same metrics.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    jobs: Arc<Jobs>,
    queues: Arc<Queues>,
    workers: Arc<Workers>,
}

impl Metrics {
    /// Metrics that no worker feeds yet. As long as none does, [`refresh`](Metrics::refresh) looks at every queue.
    pub fn new() -> Self {
        Metrics::default()
    }

    /// Shows the gauges of these queues and no others, also before they have jobs. A worker's queues are added by
    /// [`WorkerBuilder::metrics`](crate::WorkerBuilder::metrics).
    pub fn queues(self, queues: &[String]) -> Self {
        self.queues.only(queues);
        self
    }

    /// Gives these kinds labels of their own, for workers that serve them by a raw handler. Kinds with a handler of
    /// their own have them anyway; all others are counted as `other`.
    pub fn kinds(self, kinds: &[String]) -> Self {
        kinds.iter().for_each(|kind| self.jobs.know(kind));
        self
    }

    /// Registers everything with an application's registry. The queues' gauges show what
    /// [`refresh`](Metrics::refresh) last saw.
    pub fn register(&self, registry: &mut Registry) {
        self.jobs.register(registry);
        registry.register_collector(Box::new(Arc::clone(&self.workers)));
        registry.register_collector(Box::new(QueueCollector(Arc::clone(&self.queues))));
    }

    /// Asks the database for the state of the queues; at most once a second, and for at most five seconds. If it does
    /// not answer there are no gauges of queues, and `turno_database_up` is 0.
    pub async fn refresh(&self, backend: &dyn Backend) {
        self.queues.refresh(backend).await;
    }

    /// Refreshes, and answers everything in the text format of Prometheus.
    pub async fn render(&self, backend: &dyn Backend) -> String {
        self.refresh(backend).await;
        let mut registry = Registry::default();
        self.register(&mut registry);
        let mut text = String::new();
        // A string takes everything.
        let _ = prometheus_text::encode(&mut text, &registry);
        text
    }

    pub(crate) fn recorder(&self) -> Arc<dyn Hook> {
        Arc::new(Recorder(Arc::clone(&self.jobs)))
    }

    pub(crate) fn watch<'a>(
        &self,
        handle: WorkerHandle,
        kinds: impl Iterator<Item = &'a String>,
        queues: &[String],
    ) {
        kinds.for_each(|kind| self.jobs.know(kind));
        self.queues.only(queues);
        self.workers.0.lock().unwrap_or_else(PoisonError::into_inner).live.push(handle);
    }
}

/// The counters of all workers, those that have ended included.
#[derive(Debug, Default)]
struct Workers(Mutex<Watched>);

#[derive(Debug, Default)]
struct Watched {
    live: Vec<WorkerHandle>,
    ended: crate::Metrics,
}

impl Watched {
    /// How many run, and the sum of all counters.
    fn sum(&mut self) -> (usize, crate::Metrics) {
        let ended = &mut self.ended;
        self.live.retain(|handle| {
            let is_live = !handle.status.finished.is_cancelled();
            if !is_live {
                *ended = ended.plus(handle.metrics());
            }
            is_live
        });
        // What the last three count is of a moment, and the moment has passed.
        (ended.running, ended.buffered, ended.settling) = (0, 0, 0);
        let sum = self.live.iter().fold(self.ended, |sum, handle| sum.plus(handle.metrics()));
        (self.live.len(), sum)
    }
}

impl Collector for Workers {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let (workers, sum) = self.0.lock().unwrap_or_else(PoisonError::into_inner).sum();
        let counters = [
            ("turno_claims", "Claims that were answered", sum.claims),
            ("turno_claims_empty", "Claims that found nothing", sum.claims_empty),
            ("turno_heartbeats", "Heartbeats that were answered", sum.heartbeats),
            ("turno_leases_lost", "Leases that were lost while a worker held the job", sum.leases_lost),
            ("turno_leases_reaped", "Expired leases that these workers ended", sum.reaped),
            ("turno_handlers_panicked", "Handlers that panicked", sum.panicked),
            ("turno_handlers_timed_out", "Handlers whose time was over", sum.timed_out),
            ("turno_jobs_of_unknown_kind", "Jobs given back since no handler knows them", sum.unknown_kind),
            ("turno_payloads_undecodable", "Payloads that no handler was given", sum.undecodable),
            (
                "turno_results_replaced",
                "Results replaced by a note: too large, or no JSON",
                sum.results_replaced,
            ),
            ("turno_settles_repeated", "Settles that had been recorded before", sum.already),
            ("turno_verdicts_unsent", "Verdicts given up long after their lease", sum.unsent),
            ("turno_schedule_runs", "Jobs that these workers made of schedules", sum.schedule_runs),
            ("turno_schedule_errors", "Times that a schedule could not be fired", sum.schedule_errors),
            ("turno_fatal_errors", "Calls that repeating cannot mend", sum.fatal_errors),
            ("turno_doorbell_rings", "Times that the doorbell ended a pause", sum.rings),
            ("turno_hook_panics", "Hooks that panicked", sum.hook_panics),
        ];
        for (name, help, value) in counters {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(metric)?;
        }
        let gauges = [
            ("turno_workers", "Workers of this process", workers as u64),
            ("turno_handlers_running", "Handlers that run now", sum.running),
            ("turno_jobs_buffered", "Claimed jobs that wait for a slot", sum.buffered),
            ("turno_verdicts_waiting", "Verdicts that wait to be answered", sum.settling),
        ];
        for (name, help, value) in gauges {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value as f64).encode(metric)?;
        }
        Ok(())
    }
}
