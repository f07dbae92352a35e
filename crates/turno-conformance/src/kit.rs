//! What every case needs: a queue of its own, and short forms of the common calls that insist on success.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use time::OffsetDateTime;
use turno_contract::{
    AttemptRecord, Backend, Beat, BoxedBackend, ClaimRequest, ClaimedJob, Completion, Enqueued, Error,
    ErrorKind, Failure, HeartbeatAnswer, JobId, JobRecord, LeaseLoss, NewJob, Proof, QueueSettings,
    RefusedRecord, Release, Result, Retry, SettingsChange, Settled, SettledStatus, State, Token,
};

use crate::{Rig, RigTransaction};

/// The lease of every claim that does not ask for another: long enough that nothing expires unless a case ages it.
pub const LEASE: Duration = Duration::from_secs(3600);
/// How long a case waits for something that must happen.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How long a case watches something that must not happen.
pub const GLANCE: Duration = Duration::from_millis(300);
/// The worker's name in every call that does not name another.
pub const WORKER: &str = "worker-1";
/// The kind of every job that does not name another.
pub const KIND: &str = "kind";

/// One case's view of the rig.
#[derive(Clone)]
pub struct Kit {
    rig: Arc<dyn Rig>,
    backend: BoxedBackend,
    queue: String,
}

impl Kit {
    /// A kit whose queue is named after the case and after this run.
    pub fn new(rig: Arc<dyn Rig>, case: &str) -> Self {
        let run = uuid::Uuid::new_v4().simple().to_string();
        let backend = rig.backend();
        Kit { rig, backend, queue: format!("{case}/{}", &run[..12]) }
    }

    /// The same kit with another queue that nobody else uses.
    pub fn beside(&self, name: &str) -> Kit {
        Kit { queue: format!("{}/{name}", self.queue), ..self.clone() }
    }

    /// The database under test.
    pub fn rig(&self) -> &dyn Rig {
        self.rig.as_ref()
    }

    /// The backend under test.
    pub fn backend(&self) -> &dyn Backend {
        self.backend.as_ref()
    }

    /// The same, to be moved into a task.
    pub fn backend_shared(&self) -> BoxedBackend {
        self.backend.clone()
    }

    /// This case's queue.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// A job for this queue with every default.
    pub fn new_job(&self) -> NewJob {
        NewJob::new(&self.queue, KIND, "{}")
    }

    /// Enqueues this job.
    pub async fn enqueue(&self, job: NewJob) -> Enqueued {
        let answers = self.backend.enqueue(&[job]).await.expect("enqueue");
        assert_eq!(answers.len(), 1, "one answer per job");
        answers[0]
    }

    /// Enqueues a new job with every default.
    pub async fn enqueue_one(&self) -> JobId {
        self.enqueue_new(self.new_job()).await
    }

    /// Enqueues this job, which no key may find already there.
    pub async fn enqueue_new(&self, job: NewJob) -> JobId {
        let answer = self.enqueue(job).await;
        assert!(answer.created, "{} was there before", answer.id);
        answer.id
    }

    /// Enqueues `n` jobs with every default in one call.
    pub async fn enqueue_n(&self, n: usize) -> Vec<JobId> {
        let answers = self.backend.enqueue(&vec![self.new_job(); n]).await.expect("enqueue");
        assert!(answers.len() == n && answers.iter().all(|answer| answer.created));
        answers.into_iter().map(|answer| answer.id).collect()
    }

    /// A request for up to `limit` jobs of this queue with a new token.
    pub fn request(&self, limit: u32) -> ClaimRequest {
        ClaimRequest::one(&self.queue, WORKER).limit(limit).lease(LEASE)
    }

    /// Claims up to `n` jobs of this queue.
    pub async fn claim_n(&self, n: u32) -> Vec<ClaimedJob> {
        self.claim_with(&self.request(n)).await
    }

    /// Claims as this request says.
    pub async fn claim_with(&self, request: &ClaimRequest) -> Vec<ClaimedJob> {
        let jobs = self.backend.claim(request).await.expect("claim").jobs;
        assert!(jobs.len() <= request.limit as usize, "{} jobs for a limit of {}", jobs.len(), request.limit);
        jobs
    }

    /// Claims up to `n` jobs and answers only which.
    pub async fn claim_ids(&self, n: u32) -> Vec<JobId> {
        ids(&self.claim_n(n).await)
    }

    /// Claims one job of this queue, which must be there.
    pub async fn claim_one(&self) -> ClaimedJob {
        self.claim_n(1).await.pop().expect("a job to claim")
    }

    /// Enqueues a job with every default and claims it.
    pub async fn running_one(&self) -> ClaimedJob {
        let id = self.enqueue_one().await;
        let job = self.claim_one().await;
        assert_eq!(job.proof.job, id, "the queue was not empty");
        job
    }

    /// Enqueues this job and claims it.
    pub async fn running(&self, job: NewJob) -> ClaimedJob {
        let id = self.enqueue_new(job).await;
        let job = self.claim_one().await;
        assert_eq!(job.proof.job, id, "the queue was not empty");
        job
    }

    /// Completes without a result.
    pub async fn complete(&self, proof: Proof) -> Settled {
        self.complete_with(proof, None).await
    }

    /// Completes with this result.
    pub async fn complete_with(&self, proof: Proof, result: Option<&str>) -> Settled {
        let completion = Completion { proof, result: result.map(str::to_owned) };
        only(self.backend.complete(WORKER, &[completion]).await.expect("complete"))
    }

    /// Fails.
    pub async fn fail(&self, proof: Proof, error: &str, retry: Retry) -> Settled {
        let failure = Failure { proof, error: error.to_owned(), retry };
        only(self.backend.fail(WORKER, &[failure]).await.expect("fail"))
    }

    /// Releases.
    pub async fn release(&self, proof: Proof, delay: Option<Duration>) -> Settled {
        only(self.backend.release(WORKER, &[Release { proof, delay }]).await.expect("release"))
    }

    /// Asks for a lease to be extended by `LEASE`.
    pub async fn beat(&self, proof: Proof) -> HeartbeatAnswer {
        self.beat_for(proof, LEASE).await
    }

    /// Asks for a lease to be extended by this much.
    pub async fn beat_for(&self, proof: Proof, lease: Duration) -> HeartbeatAnswer {
        let beat = Beat { proof, started: true };
        only(self.backend.heartbeat(&[beat], lease).await.expect("heartbeat"))
    }

    /// Whether the lease is still held with this proof.
    pub async fn is_held(&self, proof: Proof) -> bool {
        matches!(self.beat(proof).await, HeartbeatAnswer::Held { .. })
    }

    /// The record of a job, which must exist.
    pub async fn job(&self, id: JobId) -> JobRecord {
        self.backend.job(id).await.expect("job").unwrap_or_else(|| panic!("no record of job {id}"))
    }

    /// The state of a job, which must exist.
    pub async fn state(&self, id: JobId) -> State {
        self.job(id).await.state
    }

    /// The ended attempts of a job.
    pub async fn attempts(&self, id: JobId) -> Vec<AttemptRecord> {
        self.backend.attempts(id).await.expect("attempts")
    }

    /// The ledger of refused results of one job, newest first.
    pub async fn refused(&self, id: JobId) -> Vec<RefusedRecord> {
        self.backend.refused(Some(id), None, 1000).await.expect("refused")
    }

    /// Now, by the database's clock: when a job that is enqueued now was created.
    pub async fn now(&self) -> OffsetDateTime {
        let id = self.beside("clock").enqueue_one().await;
        self.job(id).await.created_at
    }

    /// Enqueues a job with every default that is due `after` from now.
    pub async fn scheduled(&self, after: Duration) -> JobId {
        let run_at = self.now().await + after;
        self.enqueue_new(self.new_job().run_at(run_at)).await
    }

    /// Claims the next job, which must be there, and fails it for good.
    pub async fn dead_one(&self, job: NewJob) -> ClaimedJob {
        let job = self.running(job).await;
        assert_done(&self.fail(job.proof, "for good", Retry::Never).await, State::Dead);
        job
    }

    /// Removes every record of an ended job, and insists that there was one.
    pub async fn forget(&self, id: JobId) {
        self.backend.forget(id).await.expect("forget");
    }

    /// Changes this queue's settings.
    pub async fn set(&self, change: SettingsChange) -> QueueSettings {
        self.backend.queue_set(Some(&self.queue), &change).await.expect("queue_set")
    }

    /// Moves this queue's rows into the past.
    pub async fn age(&self, by: Duration) {
        self.rig.age(&self.queue, by).await;
    }

    /// Moves this queue's rows so far into the past that every lease of `LEASE` has ended.
    pub async fn expire(&self) {
        self.age(LEASE + Duration::from_secs(60)).await;
    }

    /// Reaps until nothing is left to reap; answers what this case's queue lost, by asking for its jobs.
    /// Only for cases that run alone.
    pub async fn reap_all(&self) -> Vec<LeaseLoss> {
        let mut lost = Vec::new();
        loop {
            let reaped = self.backend.reap(1000, Duration::ZERO).await.expect("reap");
            assert_eq!(reaped.holding_for, None, "a reaper without a grace never holds back");
            if reaped.jobs.is_empty() {
                break;
            }
            lost.extend(reaped.jobs);
        }
        let mut own = Vec::new();
        for loss in lost {
            if self.backend.job(loss.job).await.expect("job").is_some_and(|job| job.queue == self.queue) {
                own.push(loss);
            }
        }
        own
    }

    /// Makes the due jobs of this queue ready.
    pub async fn promote(&self) -> u64 {
        self.backend.promote(std::slice::from_ref(&self.queue), 1000).await.expect("promote")
    }

    /// A caller's own transaction.
    pub async fn begin(&self) -> Box<dyn RigTransaction> {
        self.rig.begin().await
    }

    /// The name of a table.
    pub fn table(&self, name: &str) -> String {
        self.rig.table(name)
    }

    /// Counts this queue's rows of a table that meet a condition.
    pub async fn count(&self, table: &str, condition: &str) -> i64 {
        let (table, queue) = (self.table(table), quoted(&self.queue));
        let sql = format!("SELECT count(*) FROM {table} WHERE queue = {queue} AND ({condition})");
        self.rig.scalar(&sql).await.expect("a count")
    }

    /// Changes a job's row in the hot table by plain SQL; the error is the engine's.
    pub async fn update_job(&self, id: JobId, set: &str) -> std::result::Result<u64, String> {
        let table = self.table("job");
        self.rig.execute(&format!("UPDATE {table} SET {set} WHERE id = {id}")).await
    }
}

/// The ids of claimed jobs, in order.
pub fn ids(jobs: &[ClaimedJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.proof.job).collect()
}

/// A text as an SQL literal.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The same proof with another token.
pub fn stolen(proof: Proof) -> Proof {
    Proof { token: Token::random(), ..proof }
}

/// The one element of an answer.
pub fn only<T: std::fmt::Debug>(mut answers: Vec<T>) -> T {
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers.remove(0)
}

/// Insists that a settle was accepted by this call and led to this state.
#[track_caller]
pub fn assert_done(settled: &Settled, state: State) {
    assert_eq!((settled.status, settled.state), (SettledStatus::Done, Some(state)), "{settled:?}");
}

/// Insists that a settle was refused while the job was in this state.
#[track_caller]
pub fn assert_refused(settled: &Settled, state: State) {
    assert_eq!((settled.status, settled.state), (SettledStatus::Refused, Some(state)), "{settled:?}");
    assert!(settled.reason.as_ref().is_some_and(|reason| !reason.is_empty()), "{settled:?}");
}

/// Insists on an error of this kind and answers it.
#[track_caller]
pub fn refused_as<T: std::fmt::Debug>(result: Result<T>, kind: ErrorKind) -> Error {
    match result {
        Ok(value) => panic!("expected {kind:?}, got {value:?}"),
        Err(error) => {
            assert_eq!(error.kind(), kind, "{error:?}");
            error
        }
    }
}

/// Insists that two instants differ by at most this much.
#[track_caller]
pub fn assert_near(left: OffsetDateTime, right: OffsetDateTime, by: Duration) {
    assert!((left - right).unsigned_abs() <= by, "{left} and {right} differ by more than {by:?}");
}

/// Waits for something that must happen, at most [`PATIENCE`].
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: not within {PATIENCE:?}"),
    }
}

/// Insists that this does not come to an end while somebody watches.
pub async fn not_yet<T: std::fmt::Debug>(what: &str, future: &mut (impl Future<Output = T> + Unpin)) {
    if let Ok(value) = tokio::time::timeout(GLANCE, future).await {
        panic!("{what}: ended too early, with {value:?}");
    }
}
