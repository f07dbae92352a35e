//! The control loop: one thread, one event at a time. Claims, heartbeats, verdicts, the reaper and the shutdown all
//! happen here, and nothing of the application's does: handlers run on the caller's runtime, so that one which blocks
//! cannot keep a heartbeat from leaving.
//!
//! Each turn of the loop fires what is due ([`Control::advance`]), then waits for one [`Input`] or the next timer.
//! State lives in [`held::Jobs`], [`claims::Claims`] and the [`outbox::Lane`]s, which know neither the database nor
//! the clock.

mod backoff;
mod calls;
mod claims;
mod held;
mod jobs;
mod outbox;
mod shutdown;
mod ticks;
mod verdict;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet};
use turno_contract::{
    Beat, BoxedBackend, Claimed, ClaimedJob, Completion, Error, Failure, HeartbeatAnswer, Proof, Pruned,
    Reaped, Release, Result, Settled,
};

use self::backoff::Backoff;
use self::claims::{Claims, Sent};
use self::held::{Jobs, RunTime};
use self::outbox::{Batch, Grouping, Lane};
use self::shutdown::Stopping;
use self::ticks::Ticks;
use crate::builder::Settings;
use crate::handler::Handlers;
use crate::hook::{Event, JobResult};
use crate::metrics::Counters;
use crate::report::Report;
use crate::schedules::Ticked;
use crate::worker::{Command, Status, Worker, WorkerHandle};

/// Everything that can happen to the loop.
enum Input {
    Command(Command),
    Rang,
    DoorbellGone,
    Tick,
    Claimed { sent: Sent, result: Result<Claimed> },
    Held { sent: Sent, result: Result<Vec<ClaimedJob>> },
    Announced { result: Result<()> },
    Beaten { sent: SentBeats, result: Result<Vec<HeartbeatAnswer>> },
    Completed { batch: Batch<Completion>, result: Result<Vec<Settled>> },
    Failed { batch: Batch<Failure>, result: Result<Vec<Settled>> },
    Released { batch: Batch<Release>, result: Result<Vec<Settled>> },
    Reaped { result: Result<Reaped> },
    Promoted { result: Result<u64> },
    Pruned { result: Result<Pruned> },
    Ticked { result: Result<Ticked> },
    Ended { id: Id, result: Result<JobResult, JoinError> },
}

/// When heartbeats go out; at most one call is on its way.
struct Beats {
    in_flight: bool,
    next_at: Instant,
    /// Leases that somebody's transaction held; asked for again soon.
    busy: Vec<Proof>,
    busy_at: Instant,
    /// Buffered jobs that have started since the last heartbeat.
    started: Vec<Proof>,
    backoff: Backoff,
}

/// A heartbeat on its way.
struct SentBeats {
    beats: Arc<Vec<Beat>>,
    due_at: Instant,
    sent_at: Instant,
}

/// When the reaper, the promoter and the pruner run; one call at a time.
struct Upkeep {
    in_flight: bool,
    /// Whether the last time there was more to do than one call does.
    more: bool,
    next_at: Instant,
    prune_at: Instant,
    backoff: Backoff,
}

pub(crate) struct Control {
    backend: BoxedBackend,
    settings: Settings,
    handlers: Handlers,
    executor: Handle,
    status: Arc<Status>,
    counters: Arc<Counters>,
    commands: mpsc::UnboundedReceiver<Command>,
    /// Keeps the channel of commands open.
    _handle: WorkerHandle,
    doorbell: Option<watch::Receiver<u64>>,
    calls: FuturesUnordered<BoxFuture<'static, Input>>,
    tasks: JoinSet<JobResult>,
    task_proofs: HashMap<Id, Proof>,
    running_by_kind: HashMap<String, usize>,
    jobs: Jobs,
    run_time: RunTime,
    claims: Claims,
    has_claimed: bool,
    beats: Beats,
    upkeep: Upkeep,
    ticks: Ticks,
    completions: Lane<Completion>,
    failures: Lane<Failure>,
    releases: Lane<Release>,
    stopping: Option<Stopping>,
    fatal: Option<Error>,
}

impl Control {
    pub(crate) fn new(worker: Worker, executor: Handle) -> Self {
        let Worker { backend, settings, handlers, handle, commands } = worker;
        let (now, cap) = (Instant::now(), Duration::from_secs(1));
        let grouping = Grouping { within: settings.settle_within, batch: settings.settle_batch };
        Control {
            doorbell: Some(backend.doorbell()),
            status: Arc::clone(&handle.status),
            counters: Arc::clone(&handle.status.counters),
            claims: Claims::new(&settings, now),
            beats: Beats {
                in_flight: false,
                next_at: now + settings.heartbeat_every,
                busy: Vec::new(),
                busy_at: now,
                started: Vec::new(),
                backoff: Backoff::new((settings.heartbeat_every / 2).min(cap)),
            },
            upkeep: Upkeep {
                in_flight: false,
                more: false,
                next_at: now,
                prune_at: now + settings.prune_every,
                backoff: Backoff::new(cap),
            },
            ticks: Ticks::new(now, settings.tick_every),
            completions: Lane::new(grouping),
            failures: Lane::new(grouping),
            releases: Lane::new(grouping),
            _handle: handle,
            backend,
            settings,
            handlers,
            executor,
            commands,
            calls: FuturesUnordered::new(),
            tasks: JoinSet::new(),
            task_proofs: HashMap::new(),
            running_by_kind: HashMap::new(),
            jobs: Jobs::default(),
            run_time: RunTime::default(),
            has_claimed: false,
            stopping: None,
            fatal: None,
        }
    }

    /// Runs until a shutdown is done.
    pub(crate) async fn run(mut self) -> Result<Report> {
        loop {
            self.advance(Instant::now());
            if self.is_done(Instant::now()) {
                return self.finish();
            }
            let input = self.next_input().await;
            self.handle(input, Instant::now());
            // Handlers that ended meanwhile are taken in before the next look at the slots: their verdicts travel
            // together, and the next claim is for all of them.
            while let Some(ended) = self.tasks.try_join_next_with_id() {
                let input = ended_input(ended);
                self.handle(input, Instant::now());
            }
        }
    }

    /// Starts every call and fires every timer that is due.
    fn advance(&mut self, now: Instant) {
        self.fire_job_timers(now);
        self.advance_shutdown(now);
        // The database works on the next claim while handlers are started here. Where kinds have limits, how many of
        // its jobs can start at once is known only afterwards.
        if self.settings.kind_concurrency.is_empty() {
            self.send_claim(now);
        }
        self.start_buffered(now);
        self.send_beats(now);
        self.send_verdicts(now);
        self.send_claim(now);
        self.send_upkeep(now);
        self.send_tick(now);
        self.publish();
    }

    async fn next_input(&mut self) -> Input {
        let wake = self.next_timer();
        let Control { commands, calls, tasks, doorbell, .. } = self;
        tokio::select! {
            biased;
            // The channel cannot end: this very struct holds a sender.
            Some(command) = commands.recv() => Input::Command(command),
            Some(input) = calls.next(), if !calls.is_empty() => input,
            Some(ended) = tasks.join_next_with_id(), if !tasks.is_empty() => ended_input(ended),
            input = rung(doorbell) => input,
            () = tokio::time::sleep_until(wake.into()) => Input::Tick,
        }
    }

    fn next_timer(&self) -> Instant {
        let hurry = self.stopping.is_some();
        let beats = (!self.beats.in_flight).then(|| self.beats_timer());
        let claims = match self.stopping {
            None => self.claims.timer(self.claim_room().0 > 0),
            Some(_) => None,
        };
        [
            self.jobs.timer(),
            beats.flatten(),
            claims,
            self.completions.timer(hurry),
            self.failures.timer(hurry),
            self.releases.timer(hurry),
            (!self.upkeep.in_flight && !hurry).then_some(self.upkeep.next_at),
            self.ticks.timer().filter(|_| self.settings.schedules && !hurry),
            self.stopping.as_ref().and_then(Stopping::timer),
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or_else(|| Instant::now() + self.settings.poll_max)
    }

    fn handle(&mut self, input: Input, now: Instant) {
        match input {
            Input::Tick => {}
            Input::Command(command) => self.begin_shutdown(command, now),
            Input::Rang => {
                self.ticks.rang(now);
                if self.claims.rang(now) {
                    self.counters.rings.add(1);
                }
            }
            Input::DoorbellGone => self.doorbell = None,
            Input::Claimed { sent, result } => self.on_claimed(sent, result, now),
            Input::Held { sent, result } => self.on_held(sent, result, now),
            Input::Announced { result } => self.on_announced(result, now),
            Input::Beaten { sent, result } => self.on_beaten(&sent, result, now),
            Input::Completed { batch, result } => self.on_settled(batch, result, now),
            Input::Failed { batch, result } => self.on_settled(batch, result, now),
            Input::Released { batch, result } => self.on_settled(batch, result, now),
            Input::Reaped { result } => self.on_reaped(result, now),
            Input::Promoted { result } => self.on_promoted(result, now),
            Input::Pruned { result } => self.on_pruned(result, now),
            Input::Ticked { result } => self.on_ticked(result, now),
            Input::Ended { id, result } => self.on_ended(id, result, now),
        }
    }

    /// Lets others see how it stands.
    fn publish(&self) {
        let settling = self.completions.len() + self.failures.len() + self.releases.len();
        let idle = self.claims.drained && self.jobs.len() == 0 && settling == 0 && self.tasks.is_empty();
        self.status.idle.store(idle, Ordering::SeqCst);
        self.counters.running.set(self.tasks.len());
        self.counters.buffered.set(self.jobs.buffer.len());
        self.counters.settling.set(settling);
    }

    fn emit(&self, event: Event<'_>) {
        if self.handlers.hooks.is_empty() {
            return;
        }
        let at = Instant::now();
        for hook in &self.handlers.hooks {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| hook.event(at, &event))) {
                self.counters.hook_panics.add(1);
                tracing::error!(panic = verdict::panic_text(panic.as_ref()), "a hook's event panicked");
                self.discard(panic);
            }
        }
    }

    /// Drops a panic's payload where another panic, in its destructor, hurts nobody.
    fn discard(&self, payload: Box<dyn std::any::Any + Send>) {
        if !payload.is::<&str>() && !payload.is::<String>() {
            self.executor.spawn(async move { drop(payload) });
        }
    }

    /// Counts and tells of a call that will be made again.
    fn note_error(&self, operation: &'static str, error: &Error) {
        if error.is_transient() {
            self.counters.transient_errors.add(1);
            tracing::warn!(worker = %self.settings.name, operation, %error, "will be tried again");
        } else {
            self.counters.fatal_errors.add(1);
            tracing::error!(worker = %self.settings.name, operation, %error, "refused by the database");
        }
        self.emit(Event::TransientError { operation, error });
    }
}

fn ended_input(ended: Result<(Id, JobResult), JoinError>) -> Input {
    match ended {
        Ok((id, result)) => Input::Ended { id, result: Ok(result) },
        Err(error) => Input::Ended { id: error.id(), result: Err(error) },
    }
}

async fn rung(doorbell: &mut Option<watch::Receiver<u64>>) -> Input {
    match doorbell {
        Some(receiver) => match receiver.changed().await {
            Ok(()) => Input::Rang,
            Err(_) => Input::DoorbellGone,
        },
        None => std::future::pending().await,
    }
}
