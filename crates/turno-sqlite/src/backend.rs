//! The backend: each operation checks its arguments and goes to the thread that carries it out. Refuses to touch the
//! database on the caller's own thread.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use turno_contract::doctor::{Check, DoctorOptions};
use turno_contract::{
    AttemptRecord, Backend, Beat, CancelAnswer, ClaimRequest, Claimed, ClaimedJob, Completion, DueSchedules,
    Engine, Enqueued, Error, Failure, Finding, Fired, Firing, HeartbeatAnswer, JobFilter, JobId, JobRecord,
    JobsPage, KeySearch, MigrateReport, NewJob, Pruned, PutAnswer, QueueSettings, QueueStats, Reaped,
    Refused, RefusedRecord, Release, Result, Schedule, ScheduleRecord, SettingsChange, Settled, Token,
    Unhandled, Usage, check_key, check_name, check_schedule_name, limits,
};

use crate::bell::Bell;
use crate::lanes::{Class, Lanes};
use crate::operations::settle::{Settle, check_worker};
use crate::operations::{
    audit, claim, enqueue, heartbeat, listings, operate, prune, queues, reap, schedules, settle, stats,
    unhandled,
};
use crate::options::{self, Place, SqliteOptions};
use crate::{connection, doctor, migrate, statements};

/// Longest time that one call of `wait` marks.
const WAIT_MAX: Duration = Duration::from_secs(3600);
/// Longest window of `stats`.
const WINDOW_MAX: Duration = Duration::from_secs(3650 * 86_400);

/// A queue in a SQLite database file. Cheap to share; dropping the last reference ends its two threads.
pub struct SqliteBackend {
    place: Place,
    options: SqliteOptions,
    lanes: Lanes,
    bell: Arc<Bell>,
    /// The journal mode in which the file was found.
    was_wal: Option<bool>,
}

impl SqliteBackend {
    /// Connects to `sqlite:path`, `sqlite:///absolute/path`, `sqlite::memory:` or a plain path. Creates nothing: a file
    /// that is not there yet is made by [`migrate`](Backend::migrate), and until then operations answer
    /// `VersionMismatch`.
    ///
    /// Errors: `InvalidArgument` for an unknown option, a network file system or a file that is no SQLite database;
    /// `Unavailable` if the file cannot be opened.
    pub async fn connect(path_or_url: &str, options: SqliteOptions) -> Result<Self> {
        let (place, options) = options::parse(path_or_url, options)?;
        let bell = Arc::new(Bell::new());
        let was_wal = match &place {
            Place::File(path) => connection::is_wal(path),
            Place::Memory => None,
        };
        let lanes = Lanes::open(place.clone(), options.busy_timeout, bell.clone()).await?;
        Ok(SqliteBackend { place, options, lanes, bell, was_wal })
    }

    /// The way to the threads, for tests that make trouble there.
    #[cfg(test)]
    pub(crate) fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    async fn settle(&self, worker: &str, settles: Vec<Settle>) -> Result<Vec<Settled>> {
        check_worker(worker)?;
        let mut answers = Vec::with_capacity(settles.len());
        for piece in settles.chunks(limits::SETTLE_JOBS_MAX) {
            let (worker, piece) = (worker.to_owned(), piece.to_vec());
            let settled =
                self.lanes.write(Class::Ordinary, move |work| settle::settle(work, &worker, &piece));
            answers.extend(settled.await?);
        }
        Ok(answers)
    }

    async fn write<T: Send + 'static>(
        &self,
        body: impl Fn(&crate::work::Work) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.lanes.write(Class::Ordinary, body).await
    }
}

/// Errors with `InvalidArgument` if a batch has no size or a too large one.
fn check_limit(limit: u32, max: u32) -> Result<()> {
    if (1..=max).contains(&limit) {
        return Ok(());
    }
    Err(Error::invalid(format!("limit {limit} is not in 1..={max}")))
}

#[async_trait]
impl Backend for SqliteBackend {
    fn engine(&self) -> Engine {
        Engine::Sqlite
    }

    fn sql(&self, operation: &str) -> Option<&'static str> {
        statements::operation(operation)
    }

    fn operations(&self) -> Vec<&'static str> {
        statements::OPERATIONS.iter().map(|(name, _)| *name).collect()
    }

    fn script(&self) -> String {
        migrate::script()
    }

    async fn migrate(&self, check: bool) -> Result<MigrateReport> {
        if let Place::File(path) = &self.place
            && check
            && !path.exists()
        {
            return Ok(migrate::report_of_nothing(self.options.ahead.as_ref()));
        }
        let ahead = self.options.ahead;
        self.lanes.write(Class::Migrate, move |work| migrate::migrate(work, ahead.as_ref(), check)).await
    }

    async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        enqueue::check(jobs, self.options.payload_bytes_max)?;
        let jobs = jobs.to_vec();
        self.write(move |work| enqueue::enqueue(work, &jobs)).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed> {
        request.check()?;
        let request = request.clone();
        self.write(move |work| claim::claim(work, &request)).await
    }

    async fn held(&self, token: Token) -> Result<Vec<ClaimedJob>> {
        self.lanes.read(move |work| claim::held(work, token)).await
    }

    async fn heartbeat(&self, beats: &[Beat], lease: Duration) -> Result<Vec<HeartbeatAnswer>> {
        heartbeat::check(lease)?;
        let mut answers = Vec::with_capacity(beats.len());
        for piece in beats.chunks(limits::HEARTBEAT_JOBS_MAX) {
            let piece = piece.to_vec();
            let answered =
                self.lanes.write(Class::Heartbeat, move |work| heartbeat::heartbeat(work, &piece, lease));
            answers.extend(answered.await?);
        }
        Ok(answers)
    }

    async fn complete(&self, worker: &str, completions: &[Completion]) -> Result<Vec<Settled>> {
        let max = self.options.payload_bytes_max;
        let settles =
            completions.iter().map(|completion| Settle::complete(completion, max)).collect::<Result<_>>()?;
        self.settle(worker, settles).await
    }

    async fn fail(&self, worker: &str, failures: &[Failure]) -> Result<Vec<Settled>> {
        self.settle(worker, failures.iter().map(Settle::fail).collect::<Result<_>>()?).await
    }

    async fn release(&self, worker: &str, releases: &[Release]) -> Result<Vec<Settled>> {
        self.settle(worker, releases.iter().map(Settle::release).collect::<Result<_>>()?).await
    }

    async fn refused_record(&self, worker: &str, refused: &Refused) -> Result<()> {
        check_worker(worker)?;
        let (worker, refused) = (worker.to_owned(), refused.clone());
        self.write(move |work| settle::refused_record(work, &worker, &refused)).await
    }

    async fn reap(&self, limit: u32, grace: Duration) -> Result<Reaped> {
        check_limit(limit, limits::MAINTENANCE_ROWS_MAX)?;
        if grace > limits::LEASE_MAX {
            return Err(Error::invalid(format!("grace {grace:?} is longer than {:?}", limits::LEASE_MAX)));
        }
        self.write(move |work| reap::reap(work, limit, grace)).await
    }

    async fn promote(&self, queues: &[String], limit: u32) -> Result<u64> {
        check_limit(limit, limits::MAINTENANCE_ROWS_MAX)?;
        for queue in queues {
            check_name("queue", queue)?;
        }
        let queues = queues.to_vec();
        self.write(move |work| {
            let promoted = claim::promote(work, &queues, limit)?;
            if promoted > 0 {
                work.ring();
            }
            Ok(promoted)
        })
        .await
    }

    async fn cancel(&self, job: JobId, force: bool) -> Result<CancelAnswer> {
        self.write(move |work| operate::cancel(work, job, force)).await
    }

    async fn retry(&self, job: JobId) -> Result<()> {
        self.write(move |work| operate::retry(work, job)).await
    }

    async fn reprioritize(&self, job: JobId, priority: i32) -> Result<()> {
        operate::check_priority(priority)?;
        self.write(move |work| operate::reprioritize(work, job, priority)).await
    }

    async fn pause(&self, queue: &str) -> Result<()> {
        check_name("queue", queue)?;
        let queue = queue.to_owned();
        self.write(move |work| queues::pause(work, &queue)).await
    }

    async fn resume(&self, queue: &str) -> Result<()> {
        check_name("queue", queue)?;
        let queue = queue.to_owned();
        self.write(move |work| queues::resume(work, &queue)).await
    }

    async fn queue_set(&self, queue: Option<&str>, change: &SettingsChange) -> Result<QueueSettings> {
        let change = queues::Change::new(queue, change)?;
        let reranks = change.reranks();
        let settings = self.write(move |work| queues::queue_set(work, &change)).await?;
        let mut after = if reranks { Some(0) } else { None };
        while let Some(id) = after {
            let queue = queue.map(str::to_owned);
            after = self.write(move |work| queues::rerank(work, queue.as_deref(), id)).await?;
        }
        Ok(settings)
    }

    async fn queue_list(&self) -> Result<Vec<QueueSettings>> {
        self.lanes.read(queues::queue_list).await
    }

    async fn schedule_put(&self, schedule: &Schedule) -> Result<PutAnswer> {
        schedule.check()?;
        let schedule = schedule.clone();
        self.write(move |work| schedules::put(work, &schedule)).await
    }

    async fn schedule_list(
        &self,
        name: Option<&str>,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<ScheduleRecord>> {
        check_limit(limit, limits::PAGE_ROWS_MAX)?;
        let (name, after) = (name.map(str::to_owned), after.map(str::to_owned));
        self.lanes.read(move |work| schedules::list(work, name.as_deref(), after.as_deref(), limit)).await
    }

    async fn schedule_pause(&self, name: &str) -> Result<()> {
        check_schedule_name(name)?;
        let name = name.to_owned();
        self.write(move |work| schedules::pause(work, &name)).await
    }

    async fn schedule_resume(&self, name: &str) -> Result<()> {
        check_schedule_name(name)?;
        let name = name.to_owned();
        self.write(move |work| schedules::resume(work, &name)).await
    }

    async fn schedule_remove(&self, name: &str) -> Result<()> {
        check_schedule_name(name)?;
        let name = name.to_owned();
        self.write(move |work| schedules::remove(work, &name)).await
    }

    async fn schedule_due(&self, limit: u32) -> Result<DueSchedules> {
        check_limit(limit, limits::MAINTENANCE_ROWS_MAX)?;
        self.lanes.read(move |work| schedules::due(work, limit)).await
    }

    async fn schedule_fire(&self, firing: &Firing) -> Result<Fired> {
        check_schedule_name(&firing.name)?;
        let firing = firing.clone();
        self.write(move |work| schedules::fire(work, &firing)).await
    }

    async fn prune(&self, limit: u32) -> Result<Pruned> {
        check_limit(limit, limits::MAINTENANCE_ROWS_MAX)?;
        self.write(move |work| prune::prune(work, limit)).await
    }

    async fn forget(&self, job: JobId) -> Result<()> {
        self.write(move |work| operate::forget(work, job)).await
    }

    async fn stats(&self, window: Duration) -> Result<Vec<QueueStats>> {
        if window.is_zero() || window > WINDOW_MAX {
            return Err(Error::invalid(format!("a window of {window:?} is not between 1 ms and 10 years")));
        }
        self.lanes.read(move |work| stats::stats(work, window)).await
    }

    async fn audit(&self) -> Result<Vec<Finding>> {
        self.lanes.read(audit::audit).await
    }

    async fn unhandled(&self, queue: &str) -> Result<Vec<Unhandled>> {
        check_name("queue", queue)?;
        let queue = queue.to_owned();
        self.lanes.read(move |work| unhandled::unhandled(work, &queue)).await
    }

    async fn doctor(&self, options: &DoctorOptions) -> Vec<Check> {
        doctor::doctor(self.place.clone(), self.was_wal, options.clone()).await
    }

    async fn oldest_transaction(&self) -> Result<Option<Duration>> {
        // The file does not know who reads it, nor since when.
        Ok(None)
    }

    fn usage(&self) -> Usage {
        // One reads and one writes; a database in memory has one for both. Waiting for the right to write repeats nothing.
        let connections = match &self.place {
            Place::Memory => 1,
            Place::File(path) if path.exists() => 2,
            Place::File(_) => 0,
        };
        Usage { connections, calls_repeated: 0 }
    }

    async fn job(&self, job: JobId) -> Result<Option<JobRecord>> {
        self.lanes.read(move |work| listings::job(work, job)).await
    }

    async fn jobs(&self, filter: &JobFilter) -> Result<JobsPage> {
        check_limit(filter.limit, limits::PAGE_ROWS_MAX)?;
        let filter = filter.clone();
        self.lanes.read(move |work| listings::jobs(work, &filter)).await
    }

    async fn find(&self, search: &KeySearch) -> Result<JobsPage> {
        check_key("key", &search.key)?;
        check_limit(search.limit, limits::PAGE_ROWS_MAX)?;
        let search = search.clone();
        self.lanes.read(move |work| listings::find(work, &search)).await
    }

    async fn attempts(&self, job: JobId) -> Result<Vec<AttemptRecord>> {
        self.lanes.read(move |work| listings::attempts(work, job)).await
    }

    async fn refused(
        &self,
        job: Option<JobId>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<RefusedRecord>> {
        check_limit(limit, limits::PAGE_ROWS_MAX)?;
        self.lanes.read(move |work| listings::refused(work, job, before, limit)).await
    }

    async fn wait(&self, queues: &[String], ttl: Duration) -> Result<()> {
        for queue in queues {
            check_name("queue", queue)?;
        }
        if ttl.is_zero() || ttl > WAIT_MAX {
            return Err(Error::invalid(format!("a wait of {ttl:?} is not between 1 ms and 1 hour")));
        }
        self.bell.wait(queues, ttl);
        // The reading thread notices the mark with its next operation, and watches for other processes from then on.
        self.lanes.read(|_| Ok(())).await
    }

    fn doorbell(&self) -> watch::Receiver<u64> {
        self.bell.subscribe()
    }
}
