//! When a run is over: the input has ended and its queue has no unfinished job, so retries that wait are waited for.

use std::collections::HashSet;
use std::time::Duration;

use turno::{BoxedBackend, ErrorKind, JobId, State, Verb, WorkerHandle};

use super::records;

/// Pause between two looks, growing while nothing changes.
const LOOK_MIN: Duration = Duration::from_millis(20);
const LOOK_MAX: Duration = Duration::from_millis(500);

/// Waits until the queue has no unfinished job, or the worker is told to stop. A line that is dead only because the
/// process that ran it was killed runs again, once for each run.
pub async fn until_empty(backend: &BoxedBackend, queue: &str, worker: &WorkerHandle) -> turno::Result<()> {
    let (mut pause, mut looked_at) = (LOOK_MIN, HashSet::new());
    while !worker.is_shutting_down() {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LOOK_MAX);
        if !worker.is_idle() {
            pause = LOOK_MIN;
            continue;
        }
        match is_over(backend, queue, &mut looked_at).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, "the end of the run waits for the database")
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn is_over(backend: &BoxedBackend, queue: &str, looked_at: &mut HashSet<JobId>) -> turno::Result<bool> {
    if records::unfinished(backend, queue).await? > 0 {
        return Ok(false);
    }
    Ok(revive(backend, queue, looked_at).await? == 0)
}

/// Runs the lines again whose last attempt was cut off by a crash; answers how many.
async fn revive(backend: &BoxedBackend, queue: &str, looked_at: &mut HashSet<JobId>) -> turno::Result<u64> {
    let mut revived = 0;
    for id in records::ids(backend, queue, State::Dead).await? {
        if !looked_at.insert(id) {
            continue;
        }
        let attempts = backend.attempts(id).await?;
        if attempts.last().is_none_or(|attempt| attempt.verb != Verb::Expire) {
            continue;
        }
        match backend.retry(id).await {
            Ok(()) => revived += 1,
            // Another run of the same name was faster, or its unique key is taken.
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(revived)
}
