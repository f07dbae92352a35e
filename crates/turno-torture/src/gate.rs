//! Where a worker stands still when it is told to, until it is told to go on. It refuses to decide when: the
//! supervisor does.

use std::collections::HashSet;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::protocol::{Place, Said, Told};

/// The gates of one worker process.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    armed: Option<Place>,
    /// Attempts whose handlers have returned by themselves, and were not aborted.
    returned: HashSet<(i64, i64)>,
    /// Attempts that stood at a gate while or after their handler ran.
    stood: HashSet<(i64, i64)>,
    waiting: u64,
    gone: u64,
}

impl Gates {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what the supervisor said.
    pub(crate) fn told(&self, told: Told) {
        let mut state = self.lock();
        match told {
            Told::Arm { place } => state.armed = Some(place),
            Told::Disarm => state.armed = None,
            Told::Go => state.gone = state.waiting,
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Stands still here if it was told to. Blocks the thread: on the control thread that is the point.
    pub(crate) fn reach(&self, place: Place, job: i64, attempt: i64) {
        let mut state = self.lock();
        if state.armed != Some(place) {
            return;
        }
        state.armed = None;
        state.waiting += 1;
        if place != Place::Claimed {
            state.stood.insert((job, attempt));
        }
        let ticket = state.waiting;
        say(&Said::At { place, job, attempt });
        while state.gone < ticket {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes that a handler returns now, so that there is a result.
    pub(crate) fn returns(&self, job: i64, attempt: i64) {
        self.lock().returned.insert((job, attempt));
    }

    /// The task of a handler has ended. Stands still if it returned; one that was aborted has no result. If the attempt
    /// stood anywhere, the supervisor is told that a result will be sent, however late it is.
    pub(crate) fn ended(&self, job: i64, attempt: i64) {
        let returned = self.lock().returned.remove(&(job, attempt));
        if returned {
            self.reach(Place::Completing, job, attempt);
        }
        if self.lock().stood.remove(&(job, attempt)) && returned {
            say(&Said::Returned { job, attempt });
        }
    }

    /// The same as [`Gates::reach`] for a handler, which must not block the runtime.
    pub(crate) async fn reach_async(self: &Arc<Self>, place: Place, job: i64, attempt: i64) {
        if self.lock().armed != Some(place) {
            return;
        }
        let gates = Arc::clone(self);
        // The thread of a gate cannot panic; if the runtime is going away, so is the handler.
        let _ = tokio::task::spawn_blocking(move || gates.reach(place, job, attempt)).await;
    }
}

/// Writes one line to the supervisor, whole.
pub(crate) fn say(said: &Said) {
    let Ok(mut line) = serde_json::to_string(said) else { return };
    line.push('\n');
    let mut out = std::io::stdout().lock();
    // A supervisor that is gone is noticed at standard input.
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}
