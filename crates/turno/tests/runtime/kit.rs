//! What the cases share: conditions with a limit, running workers, and a log of what handlers did.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use turno::{Context, JobId, Report, Result, Worker, WorkerBuilder, WorkerHandle};

use crate::rig::Rig;

/// How long a case waits for what must happen.
pub const LIMIT: Duration = Duration::from_secs(30);

/// What a busy machine may add to a time that a case bounds.
pub const SLACK: Duration = Duration::from_secs(2);

/// Waits until the condition holds; panics with its name after [`LIMIT`].
pub async fn until<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let began = Instant::now();
    while !condition().await {
        assert!(began.elapsed() < LIMIT, "waited {LIMIT:?} in vain until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What handlers did, in order.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<(JobId, i64, String)>>>);

impl Log {
    pub fn add<S>(&self, context: &Context<S>, what: impl Into<String>) {
        let entry = (context.job().proof.job, context.attempt(), what.into());
        self.0.lock().expect("no panic with this lock").push(entry);
    }

    pub fn all(&self) -> Vec<(JobId, i64, String)> {
        self.0.lock().expect("no panic with this lock").clone()
    }

    pub fn count(&self, what: &str) -> usize {
        self.all().iter().filter(|(_, _, entry)| entry == what).count()
    }

    pub fn has(&self, what: &str) -> bool {
        self.count(what) > 0
    }
}

/// A builder with the settings that make cases quick, and the log as state.
pub fn worker(rig: &Rig, log: &Log) -> WorkerBuilder<Log> {
    Worker::builder(rig.backend.clone())
        .state(log.clone())
        .queue(&rig.queue)
        .lease(Duration::from_millis(1500))
        .cancel_grace(Duration::from_millis(300))
        .shutdown_grace(Duration::from_secs(3))
}

/// A worker that runs.
pub struct Running {
    pub handle: WorkerHandle,
    task: JoinHandle<Result<Report>>,
}

impl Running {
    pub fn start<S: Send + Sync + 'static>(builder: WorkerBuilder<S>) -> Self {
        let worker = builder.build().expect("the settings are good");
        Running { handle: worker.handle(), task: tokio::spawn(worker.run()) }
    }

    pub async fn stop(self) -> Report {
        self.handle.shutdown();
        self.ended().await
    }

    pub async fn ended(self) -> Report {
        let ended = tokio::time::timeout(LIMIT, self.task).await.expect("the worker ends within the limit");
        ended.expect("no panic").expect("a report")
    }
}

/// Waits until the job is in this state.
pub async fn until_state(rig: &Rig, id: JobId, state: turno::State) {
    until(&format!("job {id} is {state}"), || async { rig.state(id).await == state }).await;
}
