//! Settings and handlers of a worker, checked when it is built: what could lose a lease or spin is refused there.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use turno_contract::{BoxedBackend, ClaimedJob, Error, Result, check_name, limits};

use crate::handler::{Handlers, raw, typed};
use crate::hook::{Hook, JobResult};
use crate::worker::{Status, Worker, WorkerHandle};
use crate::{Context, JobError, RetryPolicy};

/// Longest time between the request to stop and the abort of a handler: half of the margin in which the deadline's
/// verdict must be recorded (rule H3).
const CANCEL_GRACE_MAX: Duration = Duration::from_secs(5);
/// Longest pause that can be asked for.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Everything about a worker but its handlers.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) queues: Vec<String>,
    pub(crate) name: Arc<str>,
    pub(crate) concurrency: usize,
    pub(crate) kind_concurrency: HashMap<String, usize>,
    pub(crate) kind_retry: HashMap<String, RetryPolicy>,
    pub(crate) lease: Duration,
    pub(crate) heartbeat_every: Duration,
    pub(crate) poll_min: Duration,
    pub(crate) poll_max: Duration,
    pub(crate) reap_every: Duration,
    pub(crate) prune_every: Duration,
    pub(crate) schedules: bool,
    pub(crate) tick_every: Duration,
    pub(crate) shutdown_grace: Duration,
    pub(crate) cancel_grace: Duration,
    pub(crate) settle_within: Duration,
    pub(crate) settle_batch: usize,
    pub(crate) prefetch: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            queues: Vec::new(),
            name: Arc::from(""),
            concurrency: 10,
            kind_concurrency: HashMap::new(),
            kind_retry: HashMap::new(),
            lease: Duration::from_secs(30),
            heartbeat_every: Duration::ZERO,
            poll_min: Duration::from_millis(20),
            poll_max: Duration::from_millis(1500),
            reap_every: Duration::ZERO,
            prune_every: Duration::from_secs(60),
            schedules: true,
            tick_every: Duration::from_secs(30),
            shutdown_grace: Duration::from_secs(10),
            cancel_grace: Duration::from_secs(1),
            settle_within: Duration::from_millis(2),
            settle_batch: 100,
            prefetch: 0,
        }
    }
}

#[cfg(test)]
impl Settings {
    /// The defaults, with a queue and a label.
    pub(crate) fn for_tests() -> Self {
        let lease = Duration::from_secs(30);
        Settings {
            queues: vec!["a".into()],
            name: Arc::from("w"),
            heartbeat_every: lease / 3,
            reap_every: lease / 6,
            prune_every: Duration::from_secs(60),
            ..Settings::default()
        }
    }
}

/// Builds a [`Worker`]. Only a queue and a handler are needed; everything else has a default.
pub struct WorkerBuilder<S> {
    backend: BoxedBackend,
    settings: Settings,
    heartbeat_every: Option<Duration>,
    reap_every: Option<Duration>,
    name: Option<String>,
    handlers: Handlers,
    state: Arc<S>,
    #[cfg(feature = "prometheus")]
    metrics: Vec<crate::prometheus::Metrics>,
    /// The first mistake, told by `build`, since the methods before it have no way to.
    mistake: Option<String>,
}

impl WorkerBuilder<()> {
    pub(crate) fn new(backend: BoxedBackend) -> Self {
        let handlers =
            Handlers { payload_bytes_max: limits::PAYLOAD_BYTES_MAX_DEFAULT, ..Handlers::default() };
        WorkerBuilder {
            backend,
            settings: Settings::default(),
            heartbeat_every: None,
            reap_every: None,
            name: None,
            handlers,
            state: Arc::new(()),
            #[cfg(feature = "prometheus")]
            metrics: Vec::new(),
            mistake: None,
        }
    }

    /// What all handlers share: a pool, a client, counters. Comes before the first handler.
    pub fn state<S: Send + Sync + 'static>(mut self, state: S) -> WorkerBuilder<S> {
        if !self.handlers.by_kind.is_empty() || self.handlers.catch_all.is_some() {
            self.mistake.get_or_insert("state() comes before the first handler".into());
        }
        WorkerBuilder {
            backend: self.backend,
            settings: self.settings,
            heartbeat_every: self.heartbeat_every,
            reap_every: self.reap_every,
            name: self.name,
            handlers: self.handlers,
            state: Arc::new(state),
            #[cfg(feature = "prometheus")]
            metrics: self.metrics,
            mistake: self.mistake,
        }
    }
}

impl<S: Send + Sync + 'static> WorkerBuilder<S> {
    /// Adds a queue. The order in which several are served is rotated with every claim.
    pub fn queue(self, queue: impl Into<String>) -> Self {
        self.queues([queue])
    }

    /// Adds queues.
    pub fn queues<Q: Into<String>>(mut self, queues: impl IntoIterator<Item = Q>) -> Self {
        self.settings.queues.extend(queues.into_iter().map(Into::into));
        self
    }

    /// The label under which its jobs show up; `host:pid:random` by default. Never proof of anything (rule O1).
    pub fn name(mut self, label: impl Into<String>) -> Self {
        self.name = Some(label.into());
        self
    }

    /// How many handlers run at the same time; 10 by default.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.settings.concurrency = handlers;
        self
    }

    /// How many handlers of this kind run at the same time. Its further jobs wait in the worker's buffer, and go back
    /// uncharged if that takes long; a queue of its own is the better way to hold back a kind. What
    /// [`WorkerBuilder::prefetch`] says of a process that is killed holds here as well.
    pub fn kind_concurrency(mut self, kind: impl Into<String>, handlers: usize) -> Self {
        self.settings.kind_concurrency.insert(kind.into(), handlers);
        self
    }

    /// When failed jobs of this kind are tried again, instead of by their queue's settings.
    pub fn kind_retry(mut self, kind: impl Into<String>, policy: RetryPolicy) -> Self {
        self.settings.kind_retry.insert(kind.into(), policy);
        self
    }

    /// How long jobs are held without a heartbeat; 30 s by default. After a crash it takes this long until others
    /// take over.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// How often leases are renewed; a third of the lease by default, and less than half of it always.
    pub fn heartbeat_every(mut self, every: Duration) -> Self {
        self.heartbeat_every = Some(every);
        self
    }

    /// The pause after a claim that found nothing: `min` doubling to `max`, less up to a third of jitter; 20 ms to
    /// 1.5 s by default, so that an idle worker makes less than one call a second.
    pub fn poll(mut self, min: Duration, max: Duration) -> Self {
        (self.settings.poll_min, self.settings.poll_max) = (min, max);
        self
    }

    /// How often expired leases are looked for; half of the heartbeat's interval by default.
    pub fn reap_every(mut self, every: Duration) -> Self {
        self.reap_every = Some(every);
        self
    }

    /// How often records whose time is over are removed, at most a thousand at a time; one minute by default (rule P7).
    pub fn prune_every(mut self, every: Duration) -> Self {
        self.settings.prune_every = every;
        self
    }

    /// Whether this worker also fires the installation's schedules when they are due; it does by default. One worker that does is
    /// enough, and more of them do no harm (rule K1).
    pub fn schedules(mut self, fires: bool) -> Self {
        self.settings.schedules = fires;
        self
    }

    /// How often schedules are looked for that somebody has put since the last look, where no doorbell tells; 30 s by default. What is
    /// known to come is fired in time whatever this is.
    pub fn tick_every(mut self, every: Duration) -> Self {
        self.settings.tick_every = every;
        self
    }

    /// How long running handlers have to end after a shutdown began; 10 s by default.
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.settings.shutdown_grace = grace;
        self
    }

    /// How long a handler that lost its lease or its time has to end before its task is aborted; 1 s by default, at
    /// most 5 s.
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.settings.cancel_grace = grace;
        self
    }

    /// How long a verdict may wait for others to travel with it; 2 ms by default, at most a quarter of the lease.
    pub fn settle_within(mut self, wait: Duration) -> Self {
        self.settings.settle_within = wait;
        self
    }

    /// How many verdicts travel at once without waiting any longer; 100 by default.
    pub fn settle_batch(mut self, verdicts: usize) -> Self {
        self.settings.settle_batch = verdicts;
        self
    }

    /// How many jobs may be claimed ahead of a free slot; none by default. It never takes more than it expects to
    /// start within a quarter of the lease. A process that is killed in the moment in which it starts a prefetched job
    /// may not be charged for it, at most three times a job (rule F2).
    pub fn prefetch(mut self, jobs: usize) -> Self {
        self.settings.prefetch = jobs;
        self
    }

    /// The largest payload that handlers are given, and the largest result that is kept; 1 MiB by default.
    pub fn payload_bytes_max(mut self, bytes: usize) -> Self {
        self.handlers.payload_bytes_max = bytes;
        self
    }

    /// The handler of this kind: `|context: Context<S>, arguments: T| async move { Ok(result) }`. The payload is
    /// decoded as `T`; what the handler returns is kept as the job's result (`()` keeps none).
    pub fn handler<T, R, F, Fut>(mut self, kind: impl Into<String>, handler: F) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        R: Serialize,
        F: Fn(Context<S>, T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, JobError>> + Send + 'static,
    {
        let kind = kind.into();
        let runner = typed(Arc::clone(&self.state), handler);
        if self.handlers.by_kind.insert(kind.clone(), runner).is_some() {
            self.mistake.get_or_insert(format!("kind {kind:?} has two handlers"));
        }
        self
    }

    /// The handler of every kind that has none of its own; it takes the job as it is and returns JSON text.
    pub fn raw_handler<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(Context<S>, ClaimedJob) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = JobResult> + Send + 'static,
    {
        let runner = raw(Arc::clone(&self.state), handler);
        if self.handlers.catch_all.replace(runner).is_some() {
            self.mistake.get_or_insert("there are two raw handlers".into());
        }
        self
    }

    /// Adds a hook; the first one added is the outermost.
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.handlers.hooks.push(Arc::new(hook));
        self
    }

    /// Counts and measures what this worker does. Several workers may share the same metrics.
    #[cfg(feature = "prometheus")]
    pub fn metrics(mut self, metrics: &crate::prometheus::Metrics) -> Self {
        self.handlers.hooks.push(metrics.recorder());
        self.metrics.push(metrics.clone());
        self
    }

    /// Checks everything. Errors with `InvalidArgument` that names the setting.
    pub fn build(mut self) -> Result<Worker> {
        self.fill_defaults();
        if let Some(mistake) = self.mistake {
            return Err(Error::invalid(mistake));
        }
        if self.handlers.by_kind.is_empty() && self.handlers.catch_all.is_none() {
            return Err(Error::invalid("a worker needs at least one handler"));
        }
        check_names(&self.settings, &self.handlers)?;
        check_numbers(&self.settings)?;
        check_times(&self.settings)?;
        let (sender, commands) = tokio::sync::mpsc::unbounded_channel();
        let handle = WorkerHandle { commands: sender, status: Arc::new(Status::default()) };
        #[cfg(feature = "prometheus")]
        for metrics in &self.metrics {
            metrics.watch(handle.clone(), self.handlers.by_kind.keys(), &self.settings.queues);
        }
        Ok(Worker {
            backend: self.backend,
            settings: self.settings,
            handlers: self.handlers,
            handle,
            commands,
        })
    }

    fn fill_defaults(&mut self) {
        let settings = &mut self.settings;
        settings.heartbeat_every = self.heartbeat_every.unwrap_or(settings.lease / 3);
        settings.reap_every = self.reap_every.unwrap_or(settings.heartbeat_every / 2);
        settings.name = Arc::from(self.name.take().unwrap_or_else(default_name));
        let mut seen = std::collections::HashSet::new();
        settings.queues.retain(|queue| seen.insert(queue.clone()));
    }
}

fn check_names(settings: &Settings, handlers: &Handlers) -> Result<()> {
    check_name("worker", &settings.name)?;
    if settings.queues.is_empty() || settings.queues.len() > limits::CLAIM_QUEUES_MAX {
        let (n, max) = (settings.queues.len(), limits::CLAIM_QUEUES_MAX);
        return Err(Error::invalid(format!("a worker serves 1..={max} queues, not {n}")));
    }
    settings.queues.iter().try_for_each(|queue| check_name("queue", queue))?;
    handlers.by_kind.keys().try_for_each(|kind| check_name("kind", kind))?;
    let of_kinds = settings.kind_concurrency.keys().chain(settings.kind_retry.keys());
    for kind in of_kinds {
        if !handlers.by_kind.contains_key(kind) && handlers.catch_all.is_none() {
            return Err(Error::invalid(format!("kind {kind:?} has settings but no handler")));
        }
    }
    Ok(())
}

fn check_numbers(settings: &Settings) -> Result<()> {
    let at_least_one = [
        ("concurrency", settings.concurrency),
        ("settle_batch", settings.settle_batch),
        ("kind_concurrency", settings.kind_concurrency.values().copied().min().unwrap_or(1)),
    ];
    for (name, n) in at_least_one {
        if n == 0 {
            return Err(Error::invalid(format!("{name} is 0, and must be at least 1")));
        }
    }
    Ok(())
}

fn check_times(settings: &Settings) -> Result<()> {
    let Settings { lease, heartbeat_every, reap_every, poll_min, poll_max, cancel_grace, .. } = *settings;
    let bounded = [
        ("poll", poll_max, DAY),
        ("reap_every", reap_every, DAY),
        ("prune_every", settings.prune_every, DAY),
        ("tick_every", settings.tick_every, DAY),
        ("shutdown_grace", settings.shutdown_grace, limits::DELAY_MAX),
        ("cancel_grace", cancel_grace, CANCEL_GRACE_MAX),
        ("settle_within", settings.settle_within, lease / 4),
    ];
    for (name, value, max) in bounded {
        if value > max {
            return Err(Error::invalid(format!("{name} {value:?} is above {max:?}")));
        }
    }
    if !(limits::LEASE_MIN..=limits::LEASE_MAX).contains(&lease) {
        return Err(Error::invalid(format!("lease {lease:?} is not between 1 ms and 1 day")));
    }
    // Known fault B07: one late heartbeat must not cost the lease, so two have to fit into it.
    if heartbeat_every.is_zero() || heartbeat_every >= lease / 2 {
        return Err(Error::invalid(format!(
            "heartbeat_every {heartbeat_every:?} is not between zero and half of the lease, {:?}",
            lease / 2
        )));
    }
    if reap_every.is_zero() {
        return Err(Error::invalid("reap_every is zero"));
    }
    if poll_min.is_zero() || poll_min > poll_max {
        return Err(Error::invalid(format!(
            "poll {poll_min:?} to {poll_max:?} is not from more than zero upwards"
        )));
    }
    Ok(())
}

/// `host:pid:random`: two lives of one process never share it.
fn default_name() -> String {
    let host: String = gethostname::gethostname()
        .to_string_lossy()
        .chars()
        .filter(|c| !c.is_ascii_control())
        .take(40)
        .collect();
    format!("{host}:{}:{:08x}", std::process::id(), fastrand::u32(..))
}
