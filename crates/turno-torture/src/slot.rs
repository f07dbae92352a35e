//! One place for a worker: the proxy before it and the process in it, started again whenever it has ended. It refuses
//! to let a process end by itself without a reason that the plan knows.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::process::{self, CLOCK_SHIFT_S, Ending, Process};
use crate::protocol::{Place, Said, Setup, Told as Tell};
use crate::proxy::Proxy;
use crate::run::{Late, Run};
use crate::story::Told;

/// How many handlers a worker runs at once.
pub(crate) const CONCURRENCY: usize = 3;
/// How far a clock may be off before it is called wrong.
const CLOCK_TOLERANCE_S: i64 = 60;

/// Where a worker stands still.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    pub(crate) place: Place,
    pub(crate) job: i64,
    pub(crate) attempt: i64,
}

/// A process in a slot, under the label of this one life.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) label: String,
    pub(crate) process: Process,
    /// Somebody sent it a signal that ends it.
    pub(crate) doomed: AtomicBool,
    at: Mutex<Option<oneshot::Sender<Standing>>>,
}

impl Life {
    /// Has the worker stand still at this place, the next time it comes there.
    pub(crate) async fn arm(&self, place: Place) -> oneshot::Receiver<Standing> {
        let (sender, receiver) = oneshot::channel();
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        self.process.tell(Tell::Arm { place }).await;
        receiver
    }

    /// Takes that back. A worker that stands already is told to go on.
    pub(crate) async fn disarm(&self) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.process.tell(Tell::Disarm).await;
    }

    fn stands(&self, standing: Standing) -> bool {
        let waiting = self.at.lock().unwrap_or_else(PoisonError::into_inner).take();
        waiting.is_some_and(|waiting| waiting.send(standing).is_ok())
    }
}

/// A place for a worker.
pub(crate) struct Slot {
    pub(crate) index: usize,
    pub(crate) proxy: Option<Proxy>,
    wrong_clock: bool,
    life: Mutex<Option<Arc<Life>>>,
    lives: AtomicU64,
    /// One fault of the process at a time.
    pub(crate) busy: tokio::sync::Mutex<()>,
}

impl Slot {
    pub(crate) fn new(index: usize, proxy: Option<Proxy>, wrong_clock: bool) -> Arc<Self> {
        Arc::new(Slot {
            index,
            proxy,
            wrong_clock,
            life: Mutex::default(),
            lives: AtomicU64::new(0),
            busy: tokio::sync::Mutex::default(),
        })
    }

    /// The process that runs in it now.
    pub(crate) fn life(&self) -> Option<Arc<Life>> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the worker in it has a wrong clock.
    pub(crate) fn has_wrong_clock(&self) -> bool {
        self.wrong_clock
    }

    /// The name under which its sessions are seen.
    pub(crate) fn application(run: &Run, index: usize) -> String {
        format!("{}-w{index}", run.queue)
    }

    /// Keeps a worker running until the run is over.
    pub(crate) async fn keep(self: Arc<Self>, run: Arc<Run>, ledger: String) {
        let url =
            self.proxy.as_ref().map_or_else(|| run.options.url.clone(), |proxy| Some(proxy.url.clone()));
        let url = url.unwrap_or_default();
        while !run.is_over() {
            let number = self.lives.fetch_add(1, Ordering::SeqCst);
            let setup = Setup {
                url: url.clone(),
                name: format!("w{}.{number}", self.index),
                queue: run.queue.clone(),
                lease_ms: run.options.lease.as_millis() as u64,
                concurrency: CONCURRENCY,
                ledger: ledger.clone(),
            };
            match process::start(&run.options.program, &setup, self.wrong_clock).await {
                Ok((process, ending)) => self.live(&run, setup.name, process, ending).await,
                Err(error) => {
                    run.violation("worker_start", format!("cannot start a worker: {error}"), Vec::new());
                    run.pause(Duration::from_secs(1)).await;
                }
            }
        }
    }

    /// One life of one process.
    async fn live(&self, run: &Run, label: String, process: Process, mut ending: Ending) {
        let life = Arc::new(Life { label, process, doomed: AtomicBool::new(false), at: Mutex::default() });
        *self.life.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&life));
        run.tally().workers_started += 1;
        if run.is_over() {
            end(&life);
        }
        while let Ok(Some(line)) = ending.lines.next_line().await {
            match serde_json::from_str::<Said>(&line) {
                Ok(said) => self.hear(run, &life, said).await,
                Err(_) => {
                    run.violation("worker_output", format!("{} wrote {line:?}", life.label), Vec::new())
                }
            }
        }
        *self.life.lock().unwrap_or_else(PoisonError::into_inner) = None;
        run.note_ended(&life.label);
        match ending.wait().await {
            // A kill leaves no exit status; whoever was asked to end has to end well.
            Ok((status, _))
                if life.doomed.load(Ordering::SeqCst) && status.code().is_none_or(|code| code == 0) => {}
            Ok((status, stderr)) => {
                let text = format!("{} ended by itself with {status}: {}", life.label, stderr.trim());
                run.violation("worker_died", text, Vec::new());
            }
            Err(error) => run.violation("worker_died", format!("{}: {error}", life.label), Vec::new()),
        }
    }

    async fn hear(&self, run: &Run, life: &Life, said: Said) {
        let lease = run.options.lease;
        match said {
            Said::Hello { wall_us } => self.check_clock(run, wall_us),
            Said::At { place, job, attempt } => {
                if !life.stands(Standing { place, job, attempt }) {
                    life.process.tell(Tell::Go).await;
                }
            }
            Said::Returned { job, attempt } => {
                let (worker, since) = (life.label.clone(), Instant::now());
                run.model().late.push(Late { job, attempt, worker, since });
            }
            Said::Settled { job, attempt, verb, status, state } => {
                if self.wrong_clock {
                    run.tally().wrong_clock_jobs += 1;
                }
                let worker = life.label.clone();
                run.note_told(job, Told { attempt, verb, status, state, worker, rogue: false });
            }
            Said::Trouble { .. } => {
                run.tally().transient += 1;
                run.excuse_unless_held(&life.label, lease);
            }
            Said::Slow { ms } => run.excuse_unless_held(&life.label, Duration::from_millis(ms)),
            Said::Stall { ms } => run.excuse(&life.label, Duration::from_millis(ms), Some(lease)),
        }
    }

    fn check_clock(&self, run: &Run, wall_us: i64) {
        let off_s = wall_us / 1_000_000 - time::OffsetDateTime::now_utc().unix_timestamp();
        let expected_s = if self.wrong_clock { CLOCK_SHIFT_S } else { 0 };
        if (off_s - expected_s).abs() > CLOCK_TOLERANCE_S {
            let text =
                format!("the clock of worker {} is {off_s} s off instead of {expected_s} s", self.index);
            run.violation("clock", text, Vec::new());
        }
    }
}

/// Asks a worker to end; what it still holds may run into the end of its lease.
pub(crate) fn end(life: &Life) {
    life.doomed.store(true, Ordering::SeqCst);
    life.process.go_on();
    life.process.terminate();
}
