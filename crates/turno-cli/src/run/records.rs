//! The records of a run: listing, retrying and forgetting them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use time::OffsetDateTime;
use tokio::task::JoinSet;
use turno::{
    BoxedBackend, CancelAnswer, Error, ErrorKind, JobFilter, JobId, JobsPage, SettingsChange, State, limits,
};

use crate::exit::{Exit, Fault};

/// How long the leases of a run that was killed are waited for.
const LEASES_WAIT_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How many jobs are changed at the same time.
const AT_ONCE: usize = 64;
/// The shortest window of history that `stats` takes: only the present matters here.
const NO_HISTORY: Duration = Duration::from_millis(1);

/// How many jobs of the run have not ended, as far as `stats` counts. It looks at all states in one snapshot; one look
/// per state could miss a job that moves between them.
pub async fn unfinished(backend: &BoxedBackend, queue: &str) -> turno::Result<u64> {
    let stats = backend.stats(NO_HISTORY).await?;
    let ours = stats.iter().find(|stats| stats.queue == queue);
    Ok(ours.map_or(0, |stats| stats.ready.n + stats.scheduled.n + stats.running.n))
}

/// A page of the run's jobs in this state, below `before`; never an empty one while there may be more.
pub async fn page(
    backend: &BoxedBackend,
    queue: &str,
    state: State,
    before: Option<JobId>,
) -> turno::Result<JobsPage> {
    let (queue, limit) = (Some(queue.to_owned()), limits::PAGE_ROWS_MAX);
    let mut filter = JobFilter { state, queue, kind: None, before, limit };
    loop {
        let page = backend.jobs(&filter).await?;
        if !page.jobs.is_empty() || page.searched_to.is_none() {
            return Ok(page);
        }
        filter.before = page.searched_to;
    }
}

/// The ids of all the run's jobs in this state.
pub async fn ids(backend: &BoxedBackend, queue: &str, state: State) -> turno::Result<Vec<JobId>> {
    let mut ids = Vec::new();
    let mut before = None;
    loop {
        let page = page(backend, queue, state, before).await?;
        ids.extend(page.jobs.iter().map(|job| job.id));
        before = page.next(limits::PAGE_ROWS_MAX);
        if before.is_none() {
            return Ok(ids);
        }
    }
}

/// Runs the dead jobs again; answers how many. One whose unique key is taken stays dead.
pub async fn retry_dead(backend: &BoxedBackend, queue: &str) -> turno::Result<u64> {
    let dead = ids(backend, queue, State::Dead).await?;
    each(backend, dead, |backend, id| async move {
        match backend.retry(id).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Conflict => {
                tracing::warn!(job = %id, %error, "a dead line is not run again");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    })
    .await
}

/// Removes every record of the run; answers how many. Errors with `Conflict` if somebody is working it.
pub async fn forget_all(backend: &BoxedBackend, queue: &str) -> anyhow::Result<u64> {
    while unfinished(backend, queue).await? > 0 {
        wait_for_leases(backend, queue).await?;
        cancel_waiting(backend, queue).await?;
    }
    let mut forgotten = 0;
    for state in State::ALL.iter().filter(|state| state.is_final()) {
        let ended = ids(backend, queue, *state).await?;
        forgotten += each(backend, ended, |backend, id| async move {
            match backend.forget(id).await {
                Ok(()) => Ok(true),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
                Err(error) => Err(error),
            }
        })
        .await?;
    }
    let change = SettingsChange { description: Some(String::new()), ..SettingsChange::default() };
    backend.queue_set(Some(queue), &change).await?;
    Ok(forgotten)
}

async fn cancel_waiting(backend: &BoxedBackend, queue: &str) -> anyhow::Result<()> {
    for state in [State::Scheduled, State::Ready] {
        let waiting = ids(backend, queue, state).await?;
        each(backend, waiting, |backend, id| async move {
            match backend.cancel(id, false).await {
                // It has just been claimed; the next look at the leases finds out by whom.
                Ok(answer) => Ok(answer == CancelAnswer::Cancelled),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
                Err(error) => Err(error),
            }
        })
        .await?;
    }
    Ok(())
}

/// Calls `operation` for each job, some at the same time, so that their transactions are written together; answers
/// how many were `true`. The first error ends it.
async fn each<F, Fut>(backend: &BoxedBackend, ids: Vec<JobId>, operation: F) -> turno::Result<u64>
where
    F: Fn(BoxedBackend, JobId) -> Fut,
    Fut: Future<Output = turno::Result<bool>> + Send + 'static,
{
    let (mut tasks, mut count) = (JoinSet::new(), 0);
    let mut ids = ids.into_iter();
    loop {
        for id in ids.by_ref().take(AT_ONCE - tasks.len()) {
            tasks.spawn(operation(BoxedBackend::clone(backend), id));
        }
        match tasks.join_next().await {
            None => return Ok(count),
            Some(Ok(answer)) => count += u64::from(answer?),
            Some(Err(error)) => {
                return Err(Error::new(ErrorKind::Internal, "a task panicked").with_source(error));
            }
        }
    }
}

/// Waits until no job of the run is under a lease. A lease that is renewed, or taken anew, is somebody at work; one
/// that only runs out is what a crash left.
async fn wait_for_leases(backend: &BoxedBackend, queue: &str) -> anyhow::Result<()> {
    let mut known: Option<HashMap<JobId, (i64, Option<OffsetDateTime>)>> = None;
    let give_up_at = Instant::now() + LEASES_WAIT_MAX;
    loop {
        backend.reap(limits::MAINTENANCE_ROWS_MAX, Duration::ZERO).await?;
        let running = page(backend, queue, State::Running, None).await?;
        let Some(first) = running.jobs.first() else { return Ok(()) };
        let leases: HashMap<_, _> =
            running.jobs.iter().map(|job| (job.id, (job.attempt, job.lease_until))).collect();
        let known = known.get_or_insert_with(|| leases.clone());
        let renewed = leases.iter().find(|(id, lease)| known.get(id) != Some(lease));
        if let Some((id, _)) = renewed {
            return Err(at_work(queue, *id));
        }
        if Instant::now() > give_up_at {
            return Err(at_work(queue, first.id));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn at_work(queue: &str, job: JobId) -> anyhow::Error {
    let message =
        format!("the run is being worked: job {job} of queue {queue} is under a lease; stop that run first");
    Fault::new(Exit::Conflict, message).into()
}
