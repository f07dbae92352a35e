//! A worker that is ready to run, and the handle by which others speak to it. It refuses to run twice: `run` consumes
//! the worker.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use turno_contract::{BoxedBackend, Error, ErrorKind, Result};

use crate::builder::{Settings, WorkerBuilder};
use crate::control::Control;
use crate::handler::Handlers;
use crate::metrics::{Counters, Metrics};
use crate::report::Report;

/// What others ask of the control loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    Shutdown,
    StopNow,
}

/// What the control loop lets others see.
#[derive(Debug, Default)]
pub(crate) struct Status {
    pub(crate) counters: Arc<Counters>,
    pub(crate) idle: AtomicBool,
    pub(crate) shutting_down: AtomicBool,
    pub(crate) finished: CancellationToken,
}

/// Claims jobs of its queues and runs their handlers, until it is told to stop.
pub struct Worker {
    pub(crate) backend: BoxedBackend,
    pub(crate) settings: Settings,
    pub(crate) handlers: Handlers,
    pub(crate) handle: WorkerHandle,
    pub(crate) commands: UnboundedReceiver<Command>,
}

impl Worker {
    /// A worker on this backend; the builder says what else it needs.
    pub fn builder(backend: BoxedBackend) -> WorkerBuilder<()> {
        WorkerBuilder::new(backend)
    }

    /// Its label.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// A handle to it, as many as you like, before and while it runs.
    pub fn handle(&self) -> WorkerHandle {
        self.handle.clone()
    }

    /// Runs until [`WorkerHandle::shutdown`]. Handlers run on the runtime that calls this; claims, heartbeats and
    /// settles have a thread and a runtime of their own, so handlers that block cannot cost a lease.
    ///
    /// If this future is dropped, the worker stops as by [`WorkerHandle::stop_now`].
    ///
    /// Errors: what the first claim answers, if repeating it cannot help (no schema, no rights, a queue's name
    /// outside its limits); later the same, if it has lasted for longer than a lease.
    pub async fn run(self) -> Result<Report> {
        let executor = tokio::runtime::Handle::current();
        let handle = self.handle();
        let (sender, receiver) = oneshot::channel();
        let failed = |error: std::io::Error| {
            Error::new(ErrorKind::Internal, format!("cannot start the worker's thread: {error}"))
                .with_source(error)
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let finished = FinishedOnDrop(handle.status.finished.clone());
        std::thread::Builder::new()
            .name("turno-control".into())
            .spawn(move || {
                let _finished = finished;
                // Nobody listens any more if the future of `run` was dropped.
                let _ = sender.send(runtime.block_on(Control::new(self, executor).run()));
            })
            .map_err(failed)?;
        let _stop = StopOnDrop(handle);
        receiver.await.unwrap_or_else(|_| {
            Err(Error::new(
                ErrorKind::Internal,
                "the worker's control thread panicked; its jobs are left to their leases",
            ))
        })
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Speaks to a worker from anywhere: other tasks, other threads, signal handlers' threads. Cheap to clone.
#[derive(Debug, Clone)]
pub struct WorkerHandle {
    pub(crate) commands: UnboundedSender<Command>,
    pub(crate) status: Arc<Status>,
}

impl WorkerHandle {
    /// Begins the shutdown: no more claims, buffered jobs are given back, running handlers are asked to stop and have
    /// the grace to end. Before `run` it makes `run` return at once.
    pub fn shutdown(&self) {
        self.status.shutting_down.store(true, Ordering::SeqCst);
        // The receiver is gone once the worker has ended, and then there is nothing left to stop.
        let _ = self.commands.send(Command::Shutdown);
    }

    /// Ends the grace now: handlers are aborted, their jobs given up, and `run` returns within about a second.
    pub fn stop_now(&self) {
        self.status.shutting_down.store(true, Ordering::SeqCst);
        let _ = self.commands.send(Command::StopNow);
    }

    /// Whether a shutdown has begun.
    pub fn is_shutting_down(&self) -> bool {
        self.status.shutting_down.load(Ordering::SeqCst)
    }

    /// Whether the worker holds no job, owes no verdict, and its last full look at its queues found nothing.
    pub fn is_idle(&self) -> bool {
        self.status.idle.load(Ordering::SeqCst)
    }

    /// The counters now.
    pub fn metrics(&self) -> Metrics {
        self.status.counters.snapshot()
    }

    /// Completes when the worker has ended.
    pub async fn finished(&self) {
        self.status.finished.cancelled().await;
    }
}

struct StopOnDrop(WorkerHandle);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop_now();
    }
}

struct FinishedOnDrop(CancellationToken);

impl Drop for FinishedOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
