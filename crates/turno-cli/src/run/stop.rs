//! The reason why a run cannot go on, and how it is stopped for it: gracefully, with the lines at work given back.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use turno::{Engine, Error, ErrorKind, Event, Hook, WorkerHandle};

use crate::exit::{Exit, Fault};

/// How long a server may be away.
const SERVER_AWAY_MAX: Duration = Duration::from_secs(120);
/// How long a file may be: a full disk or a lost mount does not come back by itself.
const FILE_AWAY_MAX: Duration = Duration::from_secs(5);
/// How long the database must be away before that is told.
const TOLD_AFTER: Duration = Duration::from_secs(2);

/// How long this error is waited out.
pub fn patience(engine: Engine, error: &Error) -> Duration {
    match (engine, error.kind()) {
        (Engine::Sqlite, ErrorKind::Unavailable) => FILE_AWAY_MAX,
        _ => SERVER_AWAY_MAX,
    }
}

/// Shared by all who may find that the run cannot go on.
#[derive(Debug)]
pub struct Stop {
    worker: WorkerHandle,
    engine: Engine,
    fault: Mutex<Option<Fault>>,
    outage: Mutex<Option<Outage>>,
}

/// The database has not answered the worker since.
#[derive(Debug)]
struct Outage {
    began: Instant,
    patience: Duration,
    message: String,
    told: bool,
}

impl Stop {
    /// Stops this worker.
    pub fn new(worker: WorkerHandle, engine: Engine) -> Self {
        Stop { worker, engine, fault: Mutex::default(), outage: Mutex::default() }
    }

    /// Stops the run. The first reason stands.
    pub fn stop(&self, fault: Fault) {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
        self.worker.shutdown();
    }

    /// Why the run was stopped.
    pub fn fault(&self) -> Option<Fault> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Stops the run if the database has been away for too long; answers what is to be told about it, once.
    pub fn look(&self) -> Option<String> {
        let mut outage = self.outage.lock().unwrap_or_else(PoisonError::into_inner);
        let outage = outage.as_mut()?;
        if outage.began.elapsed() > outage.patience {
            self.stop(Fault::new(Exit::Unavailable, outage.message.clone()));
            return None;
        }
        let tell = !outage.told && outage.began.elapsed() > TOLD_AFTER;
        outage.told |= tell;
        tell.then(|| format!("turno: waiting for the database: {}", outage.message))
    }

    fn away(&self, error: &Error) {
        let mut outage = self.outage.lock().unwrap_or_else(PoisonError::into_inner);
        let message = error.to_string();
        let patience = patience(self.engine, error);
        outage.get_or_insert_with(|| Outage { began: Instant::now(), patience, message, told: false });
    }

    fn answered(&self) {
        *self.outage.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Hears whether the database answers the worker. It is added before the worker, and so the handle, is there.
#[derive(Debug, Default, Clone)]
pub struct Watch(Arc<std::sync::OnceLock<Arc<Stop>>>);

impl Watch {
    /// From now on tells this.
    pub fn tells(&self, stop: Arc<Stop>) {
        // There is only one worker in a run.
        let _ = self.0.set(stop);
    }

    /// Whom it tells.
    pub fn stop(&self) -> Option<&Arc<Stop>> {
        self.0.get()
    }
}

impl Hook for Watch {
    fn event(&self, _at: Instant, event: &Event<'_>) {
        let Some(stop) = self.0.get() else { return };
        match event {
            Event::TransientError { error, .. } => stop.away(error),
            Event::Claimed { .. } | Event::ClaimEmpty { .. } | Event::Settled { .. } => stop.answered(),
            _ => {}
        }
    }
}
