//! Signals of the operating system, for programs that are nothing but a worker. They refuse to end the process: the
//! program does that when `run` returns.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use tokio::runtime::{Builder, Runtime};
use turno_contract::{Error, ErrorKind, Result};

use crate::WorkerHandle;

/// Which signals came.
#[derive(Debug, Clone)]
pub struct Signals {
    first: Arc<AtomicI32>,
}

impl Signals {
    /// The number of the first signal that came: the program's exit code is 128 more, by custom.
    pub fn first(&self) -> Option<i32> {
        Some(self.first.load(Ordering::SeqCst)).filter(|number| *number != 0)
    }
}

/// From now on SIGTERM and SIGINT (Ctrl-C) shut the worker down, and a second one stops it at once.
///
/// Listens on a thread of its own, so that handlers which block every thread of the runtime do not hold it up. It
/// listens until the worker has ended; from then on the two signals do nothing in this process. Errors: `Internal` if the signal handlers cannot be installed.
pub fn shutdown_on_signals(handle: WorkerHandle) -> Result<Signals> {
    let failed = |error: std::io::Error| {
        Error::new(ErrorKind::Internal, format!("cannot listen to signals: {error}")).with_source(error)
    };
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let mut stream = listen(&runtime).map_err(failed)?;
    let first = Arc::new(AtomicI32::new(0));
    let signals = Signals { first: Arc::clone(&first) };
    let work = async move {
        loop {
            let number = tokio::select! {
                number = stream.next() => number,
                () = handle.finished() => return,
            };
            if first.compare_exchange(0, number, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                tracing::info!(signal = number, "shutting down");
                handle.shutdown();
            } else {
                tracing::warn!(signal = number, "stopping at once");
                handle.stop_now();
            }
        }
    };
    std::thread::Builder::new()
        .name("turno-signals".into())
        .spawn(move || runtime.block_on(work))
        .map_err(failed)?;
    Ok(signals)
}

#[cfg(unix)]
struct Stream {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
fn listen(runtime: &Runtime) -> std::io::Result<Stream> {
    use tokio::signal::unix::{SignalKind, signal};
    // The streams register with the runtime that is entered.
    let _entered = runtime.enter();
    Ok(Stream { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
}

#[cfg(unix)]
impl Stream {
    async fn next(&mut self) -> i32 {
        use tokio::signal::unix::SignalKind;
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate().as_raw_value(),
            _ = self.interrupt.recv() => SignalKind::interrupt().as_raw_value(),
        }
    }
}

#[cfg(not(unix))]
struct Stream;

#[cfg(not(unix))]
fn listen(_runtime: &Runtime) -> std::io::Result<Stream> {
    Ok(Stream)
}

#[cfg(not(unix))]
impl Stream {
    async fn next(&mut self) -> i32 {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        2
    }
}
