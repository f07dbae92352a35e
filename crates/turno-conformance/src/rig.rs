//! What a backend gives to the suite so that it can be tested on a real database.
//!
//! A rig is one database of one engine, with the schema in place and a backend connected to it. Beside the backend it
//! offers what only the owner of the tables may do: age rows (so that no case ever sleeps), bring rows by plain SQL,
//! and open a caller's own transaction. It refuses to know any rule: what is right is for the cases to say.

use std::time::Duration;

use async_trait::async_trait;
use turno_contract::{BoxedBackend, Completion, Enqueued, JobId, NewJob, Result, Settled};

/// One database of one engine under test. All cases share one rig, each in queues of its own.
#[async_trait]
pub trait Rig: Send + Sync + 'static {
    /// The backend under test, migrated and connected.
    fn backend(&self) -> BoxedBackend;

    /// The full name of one of turno's tables in SQL: `turno.job`, `turno_job`.
    fn table(&self, name: &str) -> String;

    /// The name of a column as it stands in SQL: an engine that reserves the word quotes it.
    fn column(&self, name: &str) -> String {
        name.to_owned()
    }

    /// Moves every timestamp of this queue's rows in `job`, `finished_job`, `attempt` and `refused` into the past, and
    /// `rank` with them (by as many microseconds, where it is not NULL). So do the schedules of this queue, and when their instants
    /// were fired, but not these instants. This is how time passes in the cases.
    async fn age(&self, queue: &str, by: Duration);

    /// Moves the installation's memory of its reapers (when somebody reaped last, until when the reaper holds back)
    /// into the past.
    async fn age_reaper(&self, by: Duration);

    /// Makes every later enqueue answer an id above this one. Never lowers anything.
    async fn raise_ids(&self, above: i64);

    /// Runs one statement of portable SQL as the owner of the tables; answers the rows it touched.
    async fn execute(&self, sql: &str) -> Result<u64, String>;

    /// The first column of the first row as an integer, read as the owner. `None` without a row, or for NULL.
    async fn scalar(&self, sql: &str) -> Option<i64>;

    /// Begins a caller's own transaction, on a connection that is not the backend's.
    async fn begin(&self) -> Box<dyn RigTransaction>;

    /// Whether a transaction holds single rows. `false`: it holds the whole database (one writer), and cases that need
    /// a row held while other rows move are reported as not applicable.
    fn row_locks(&self) -> bool;

    /// What is told about those cases then.
    fn why_no_row_locks(&self) -> &'static str {
        "not applicable: one writer"
    }

    /// Whether operations are routines that a caller's transaction could call; if not, cases about calling them there
    /// are reported as not applicable.
    fn routines(&self) -> bool {
        false
    }

    /// Where the database is, for a person who wants to look at it after a failure.
    fn url(&self) -> String;
}

/// A caller's own transaction, through the backend crate's functions on its driver's transaction type. Dropping it
/// rolls back.
#[async_trait]
pub trait RigTransaction: Send {
    /// `enqueue_in`.
    async fn enqueue(&mut self, job: &NewJob) -> Result<Enqueued>;

    /// `complete_in`: a refusal is an error here (rule S5).
    async fn complete(&mut self, worker: &str, completion: &Completion) -> Result<Settled>;

    /// Holds the row of this job until the end of the transaction, waiting for it if need be. With one writer: takes
    /// the right to write.
    async fn lock(&mut self, job: JobId) -> Result<()>;

    /// Calls the routine `claim`, `reap`, `promote` or `prune` with harmless arguments inside this transaction. Called
    /// only if [`Rig::routines`] is true.
    async fn call(&mut self, operation: &str) -> Result<()> {
        unimplemented_by_rig(operation)
    }

    /// Commits. An engine whose handle cannot commit after a refusal answers an error.
    async fn commit(self: Box<Self>) -> Result<()>;

    /// Rolls back.
    async fn rollback(self: Box<Self>) -> Result<()>;
}

fn unimplemented_by_rig(operation: &str) -> Result<()> {
    panic!("this rig says that it has routines, but cannot call {operation} in a transaction")
}
