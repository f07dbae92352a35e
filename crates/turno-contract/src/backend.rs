//! The one seam between the databases and everything else.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::doctor::{Check, DoctorOptions};
use crate::settle::Refused;
use crate::{
    AttemptRecord, Beat, CancelAnswer, ClaimRequest, Claimed, ClaimedJob, Completion, DueSchedules, Engine,
    Enqueued, Failure, Finding, Fired, Firing, HeartbeatAnswer, JobFilter, JobId, JobRecord, JobsPage,
    KeySearch, MigrateReport, NewJob, Pruned, PutAnswer, QueueSettings, QueueStats, Reaped, RefusedRecord,
    Release, Result, Schedule, ScheduleRecord, SettingsChange, Settled, Token, Unhandled, Usage,
};

/// A shared backend of any engine.
pub type BoxedBackend = std::sync::Arc<dyn Backend>;

/// The operations of a queue, one method each, the same on every engine. `docs/contract.md` has the rules.
///
/// What holds for every method:
///
/// * It runs in a transaction of its own. For a caller's transaction each backend crate has plain functions on its
///   driver's own transaction type (`enqueue_in`, `complete_in`).
/// * Deadlocks, lock timeouts and serialization failures are retried inside, bounded and counted (rule X3). What is
///   still an error then has [`is_transient`](crate::Error::is_transient).
/// * Dropping the future may or may not carry the operation out; nothing is left half done.
/// * Arguments are checked first; `InvalidArgument` means that nothing was sent.
/// * Answers stand in the order of the request. Lists longer than one statement takes are sent in pieces, except
///   where a method says that it is one transaction.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Which database this is.
    fn engine(&self) -> Engine;

    /// The text of one operation's routine or statements, as `turno sql` prints it; `None` for an unknown name.
    fn sql(&self, operation: &str) -> Option<&'static str>;

    /// The names of all operations, for which [`sql`](Backend::sql) has a text.
    fn operations(&self) -> Vec<&'static str>;

    /// The whole schema as one script for a person to read and run.
    fn script(&self) -> String;

    /// Brings the schema to this binary's version; with `check` only says what would be done.
    /// Errors: `VersionMismatch` if the schema is newer than this binary may touch.
    async fn migrate(&self, check: bool) -> Result<MigrateReport>;

    /// Enqueues all the jobs or none, in one transaction (rules E1..E10).
    /// Errors: `InvalidArgument` with the row's number; `Unavailable` with an unknown outcome.
    async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>>;

    /// Takes up to `limit` jobs, best first; never waits for a row that somebody holds (rules C1..C9).
    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed>;

    /// The jobs that this token holds: the answer to a claim with unknown outcome (rule C5).
    async fn held(&self, token: Token) -> Result<Vec<ClaimedJob>>;

    /// Extends leases; one busy row delays no other (rules H1..H4).
    async fn heartbeat(&self, beats: &[Beat], lease: Duration) -> Result<Vec<HeartbeatAnswer>>;

    /// Settles as succeeded. Refusals are answers here, not errors (rules S1..S7). `worker` goes to the ledger.
    async fn complete(&self, worker: &str, completions: &[Completion]) -> Result<Vec<Settled>>;

    /// Settles as failed: a retry, or `dead` (rules F1..F7).
    async fn fail(&self, worker: &str, failures: &[Failure]) -> Result<Vec<Settled>>;

    /// Gives back uncharged (rule S2).
    async fn release(&self, worker: &str, releases: &[Release]) -> Result<Vec<Settled>>;

    /// Records a refusal that happened inside a caller's transaction, which could not record it (rule S5).
    async fn refused_record(&self, worker: &str, refused: &Refused) -> Result<()>;

    /// Ends up to `limit` expired leases. If nobody has reaped for longer than `grace`, it first waits one `grace`
    /// so that live workers can renew; zero reaps at once (rules R1..R3).
    async fn reap(&self, limit: u32, grace: Duration) -> Result<Reaped>;

    /// Makes up to `limit` due jobs of these queues ready (all queues if empty); answers how many.
    async fn promote(&self, queues: &[String], limit: u32) -> Result<u64>;

    /// Cancels a waiting job; asks a running one to stop, or with `force` revokes it (rules P1, P2).
    /// Errors: `NotFound`.
    async fn cancel(&self, job: JobId, force: bool) -> Result<CancelAnswer>;

    /// Runs a dead job again. Errors: `NotFound`; `Conflict` if it is not dead, or its unique key is taken (rule P3).
    async fn retry(&self, job: JobId) -> Result<()>;

    /// Changes the priority of an unfinished job. Errors: `NotFound`; `Conflict` if it has ended (rule P4).
    async fn reprioritize(&self, job: JobId, priority: i32) -> Result<()>;

    /// After it returns no new claim gets a job of this queue (rule P5).
    async fn pause(&self, queue: &str) -> Result<()>;

    /// Ends a pause.
    async fn resume(&self, queue: &str) -> Result<()>;

    /// Changes settings of a queue, or of the defaults (`None`); answers all settings (rule P6).
    async fn queue_set(&self, queue: Option<&str>, change: &SettingsChange) -> Result<QueueSettings>;

    /// The defaults first, then every queue that has settings or jobs, by name.
    async fn queue_list(&self) -> Result<Vec<QueueSettings>>;

    /// Creates or changes a schedule; the same again moves nothing. A new expression or zone counts from the database's now, and
    /// is due at once, so that whoever ticks asks a calendar (rules K3, K7). The calendar is the caller's to ask first:
    /// no engine can tell whether an expression is one. Errors: `InvalidArgument`.
    async fn schedule_put(&self, schedule: &Schedule) -> Result<PutAnswer>;

    /// A page of schedules by name: those behind this name, or the one of exactly this name.
    async fn schedule_list(
        &self,
        name: Option<&str>,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<ScheduleRecord>>;

    /// After it returns nothing of this schedule is fired. Errors: `NotFound` (rule K8).
    async fn schedule_pause(&self, name: &str) -> Result<()>;

    /// Ends a pause; nothing is fired for the time of the pause. Errors: `NotFound` (rule K8).
    async fn schedule_resume(&self, name: &str) -> Result<()>;

    /// Removes a schedule; its jobs stay. Errors: `NotFound`.
    async fn schedule_remove(&self, name: &str) -> Result<()>;

    /// Up to `limit` schedules that are due, longest first, and when the next one will be. It only looks, and without schedules it
    /// costs a look at an empty index (rule K2).
    async fn schedule_due(&self, limit: u32) -> Result<DueSchedules>;

    /// Makes the instants jobs and moves the schedule on, in one transaction, if its revision is still the one that was seen and
    /// nobody else holds it (rules K1, K2). Many may ask for the same: one of them does it.
    /// Errors: `InvalidArgument` for instants that cannot be, or if the queue's settings refuse the job.
    async fn schedule_fire(&self, firing: &Firing) -> Result<Fired>;

    /// Removes up to `limit` records whose time is over; call again while it removes any (rules P7, P8).
    async fn prune(&self, limit: u32) -> Result<Pruned>;

    /// Removes the record of one ended job with its keys, whatever its retention.
    /// Errors: `NotFound`; `Conflict` if it has not ended.
    async fn forget(&self, job: JobId) -> Result<()>;

    /// The state of each queue, over this window of history (rule V1).
    async fn stats(&self, window: Duration) -> Result<Vec<QueueStats>>;

    /// Proves that no row is out of reach of every rule; empty if all is well (rule V3).
    async fn audit(&self) -> Result<Vec<Finding>>;

    /// The kinds of a queue whose jobs are given back again and again and never succeed (rule V4).
    async fn unhandled(&self, queue: &str) -> Result<Vec<Unhandled>>;

    /// Looks at what the operations stand on: server, schema, rights, transactions of others, and then at the rows. Each
    /// look is bounded, and one that fails is an answer, never an error. It is no routine of the schema: it has to answer
    /// while the schema is broken or missing.
    async fn doctor(&self, options: &DoctorOptions) -> Vec<Check>;

    /// How long ago the oldest transaction began that keeps the database from removing what is dead, as far as this login
    /// may see; `None` if there is none.
    async fn oldest_transaction(&self) -> Result<Option<Duration>>;

    /// What this backend uses now.
    fn usage(&self) -> Usage;

    /// One job, wherever it is in its life.
    async fn job(&self, job: JobId) -> Result<Option<JobRecord>>;

    /// A page of jobs, newest id first, at a bounded cost: where few of many jobs match, the answer says how far the
    /// search came (rules V2, V6).
    async fn jobs(&self, filter: &JobFilter) -> Result<JobsPage>;

    /// A page of the jobs that have this unique key, and of those that this idempotency key stands for, newest id first,
    /// in whatever state (rule V7).
    async fn find(&self, search: &KeySearch) -> Result<JobsPage>;

    /// The ended attempts of one job, in order.
    async fn attempts(&self, job: JobId) -> Result<Vec<AttemptRecord>>;

    /// A page of the ledger of refused results, newest first, of one job or of all, below this line (rule S7).
    async fn refused(
        &self,
        job: Option<JobId>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<RefusedRecord>>;

    /// Marks that somebody sleeps until one of these queues has work, for at most `ttl` (rule W2).
    async fn wait(&self, queues: &[String], ttl: Duration) -> Result<()>;

    /// Changes when somebody may have enqueued. A hint: rings can be lost, and sleepers are bounded (rule W1).
    fn doorbell(&self) -> watch::Receiver<u64>;
}
