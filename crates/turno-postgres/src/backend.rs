//! The operations as calls of their routines, one line of SQL each.

use std::borrow::Cow;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{Mutex, OnceCell, watch};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use turno_contract::doctor::{Check, DoctorOptions};
use turno_contract::schema_files::SchemaFiles;
use turno_contract::{
    AttemptRecord, Backend, Beat, CancelAnswer, ClaimRequest, Claimed, ClaimedJob, Completion, DueSchedules,
    Engine, Enqueued, Error, ErrorKind, Failure, Finding, Fired, Firing, HeartbeatAnswer, JobFilter, JobId,
    JobRecord, JobsPage, Keep, KeySearch, MigrateReport, NewJob, Proofs, Pruned, PutAnswer, QueueSettings,
    QueueStats, Reaped, Refused, RefusedRecord, Release, Result, Retry, Schedule, ScheduleRecord,
    SettingsChange, Settled, Token, Unhandled, Usage, check_jobs, check_json, check_key, check_name,
    cut_error, limits, whole_ms,
};
use uuid::Uuid;

use crate::call::{Caller, Param};
use crate::doorbell::Doorbell;
use crate::options::PostgresOptions;
use crate::{doctor, files, migrate, rows};

/// Longest mark of a sleeper, as the routine has it.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// An installation in a PostgreSQL database. Cheap to call from anywhere; share it by `Arc`.
pub struct PostgresBackend {
    options: PostgresOptions,
    caller: Caller,
    doorbell: Doorbell,
    schema_checked: OnceCell<()>,
    schema_files: SchemaFiles,
    migrating: Mutex<()>,
    /// Last, so that it ends after what runs on it.
    _driver: Driver,
}

/// The thread that drives the connections.
struct Driver(Option<Runtime>);

impl Driver {
    fn start() -> Result<Self> {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("turno-postgres")
            .enable_all()
            .build()
            .map(|runtime| Driver(Some(runtime)))
            .map_err(|error| Error::new(ErrorKind::Internal, "cannot start a thread").with_source(error))
    }

    fn handle(&self) -> &Handle {
        self.0.as_ref().expect("the runtime is there until drop").handle()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // A runtime may not wait for its tasks inside another runtime.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl PostgresBackend {
    /// Connects once, to report a wrong URL now. The schema is looked at by the first operation.
    ///
    /// Errors: `InvalidArgument` for a URL that is not one, `Unavailable`, `PermissionDenied`.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::connect_with(PostgresOptions::from_str(url)?).await
    }

    /// The same with options.
    pub async fn connect_with(options: PostgresOptions) -> Result<Self> {
        let driver = Driver::start()?;
        let backend = PostgresBackend {
            caller: Caller::new(&options, driver.handle())?,
            doorbell: Doorbell::new(&options, driver.handle().clone()),
            schema_checked: OnceCell::new(),
            schema_files: migrate::schema_files(options.ahead),
            migrating: Mutex::new(()),
            options,
            _driver: driver,
        };
        drop(backend.caller.connection().await?);
        Ok(backend)
    }

    /// The text for this installation's schema.
    pub(crate) fn text<'a>(&self, sql: &'a str) -> Cow<'a, str> {
        match self.options.schema.as_str() {
            "turno" => Cow::Borrowed(sql),
            schema => Cow::Owned(files::in_schema(sql, schema)),
        }
    }

    pub(crate) fn payload_bytes_max(&self) -> usize {
        self.options.payload_bytes_max
    }

    /// A call that never waits for rows or keys that others hold.
    pub(crate) async fn call_now(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        self.schema_checked.get_or_try_init(|| self.check_schema()).await?;
        self.caller.call(&self.text(sql), params, false).await
    }

    pub(crate) async fn call(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        self.schema_checked.get_or_try_init(|| self.check_schema()).await?;
        self.caller.call(&self.text(sql), params, true).await
    }

    pub(crate) async fn call_one(&self, sql: &str, params: &[Param<'_>]) -> Result<Row> {
        let mut rows = self.call(sql, params).await?;
        rows.pop().ok_or_else(|| Error::new(ErrorKind::Internal, "the routine answered no row"))
    }

    async fn check_schema(&self) -> Result<()> {
        let sql = self.text("SELECT * FROM turno.schema_version()");
        let rows = self.caller.call(&sql, &[], false).await?;
        let row = rows
            .first()
            .ok_or_else(|| Error::new(ErrorKind::VersionMismatch, "the schema has no version"))?;
        self.schema_files.check_version(row.get("version"), row.get("oldest_binary"))
    }
}

/// Proofs as the three arrays that the routines take.
struct Columns {
    jobs: Vec<i64>,
    attempts: Vec<i64>,
    tokens: Vec<Uuid>,
}

impl Columns {
    fn of(proofs: &Proofs) -> Self {
        Columns {
            jobs: proofs.column(|_, proof| proof.job.0),
            attempts: proofs.column(|_, proof| proof.attempt),
            tokens: proofs.column(|_, proof| proof.token.as_uuid()),
        }
    }

    fn params(&self) -> [Param<'_>; 3] {
        [(&self.jobs, Type::INT8_ARRAY), (&self.attempts, Type::INT8_ARRAY), (&self.tokens, Type::UUID_ARRAY)]
    }
}

fn place(row: &Row) -> Result<usize> {
    Ok(usize::try_from(row.get::<_, i64>("place") - 1).unwrap_or(usize::MAX))
}

fn check_queues(queues: &[String]) -> Result<()> {
    queues.iter().try_for_each(|queue| check_name("queue", queue))
}

fn optional_ms(duration: Option<Duration>) -> Option<i64> {
    duration.map(whole_ms)
}

/// An array parameter whose elements all take the default is NULL as a whole.
fn column<'a, T>(jobs: &'a [NewJob], value: impl Fn(&'a NewJob) -> Option<T>) -> Option<Vec<Option<T>>> {
    let column: Vec<Option<T>> = jobs.iter().map(value).collect();
    column.iter().any(Option::is_some).then_some(column)
}

#[async_trait]
impl Backend for PostgresBackend {
    fn engine(&self) -> Engine {
        Engine::Postgres
    }

    fn sql(&self, operation: &str) -> Option<&'static str> {
        files::OPERATIONS.iter().find(|(name, _)| *name == operation).map(|(_, text)| *text)
    }

    fn operations(&self) -> Vec<&'static str> {
        files::OPERATIONS.iter().map(|(name, _)| *name).collect()
    }

    fn script(&self) -> String {
        migrate::script(&self.options.schema, &self.schema_files)
    }

    async fn migrate(&self, check: bool) -> Result<MigrateReport> {
        // A migration takes both connections, and two of them one each for ever.
        let _alone = self.migrating.lock().await;
        migrate::migrate(&self.caller, &self.options.schema, &self.schema_files, check).await
    }

    async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        check_jobs(jobs, self.options.payload_bytes_max)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let queues: Vec<&str> = jobs.iter().map(|job| job.queue.as_str()).collect();
        let kinds: Vec<&str> = jobs.iter().map(|job| job.kind.as_str()).collect();
        let payloads: Vec<&str> = jobs.iter().map(|job| job.payload.as_str()).collect();
        let priorities = column(jobs, |job| job.priority);
        let run_ats: Option<Vec<Option<OffsetDateTime>>> = column(jobs, NewJob::run_at_rounded);
        let max_attempts = column(jobs, |job| job.max_attempts.map(|n| n as i32));
        let max_run_ms = column(jobs, |job| optional_ms(job.max_run));
        let unique_keys = column(jobs, |job| job.unique_key.as_deref());
        let idempotency_keys = column(jobs, |job| job.idempotency_key.as_deref());
        let traceparents = column(jobs, NewJob::traceparent_kept);
        let mut params: Vec<Param<'_>> =
            vec![(&queues, Type::TEXT_ARRAY), (&kinds, Type::TEXT_ARRAY), (&payloads, Type::TEXT_ARRAY)];
        if priorities.is_some() {
            params.push((&priorities, Type::INT4_ARRAY));
        }
        params.extend([
            (&run_ats as _, Type::TIMESTAMPTZ_ARRAY),
            (&max_attempts as _, Type::INT4_ARRAY),
            (&max_run_ms as _, Type::INT8_ARRAY),
            (&unique_keys as _, Type::TEXT_ARRAY),
            (&idempotency_keys as _, Type::TEXT_ARRAY),
            (&traceparents as _, Type::TEXT_ARRAY),
        ]);
        let sql = match priorities {
            None => "SELECT * FROM turno.enqueue_many($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            Some(_) => {
                "SELECT * FROM turno.enqueue_many_prioritized($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
            }
        };
        Ok(self.call(sql, &params).await?.iter().map(rows::enqueued).collect())
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed> {
        request.check()?;
        let limit = request.limit as i32;
        let start = request.start.map(|n| i32::try_from(n).unwrap_or(i32::MAX));
        let from_ranks = (!request.from_ranks.is_empty()).then_some(&request.from_ranks);
        let params: [Param<'_>; 7] = [
            (&request.queues, Type::TEXT_ARRAY),
            (&request.worker, Type::TEXT),
            (&limit, Type::INT4),
            (&whole_ms(request.lease), Type::INT8),
            (&request.token.as_uuid(), Type::UUID),
            (&start, Type::INT4),
            (&from_ranks, Type::INT8_ARRAY),
        ];
        let rows = self.call_now("SELECT * FROM turno.claim($1, $2, $3, $4, $5, $6, $7)", &params).await?;
        let next_due_in =
            rows.first().and_then(|row| row.get::<_, Option<i64>>("next_due_in_ms")).map(rows::millis);
        let jobs = rows.iter().filter(|row| row.get::<_, Option<i64>>("id").is_some());
        Ok(Claimed { jobs: jobs.map(rows::claimed_job).collect::<Result<_>>()?, next_due_in })
    }

    async fn held(&self, token: Token) -> Result<Vec<ClaimedJob>> {
        let rows = self.call_now("SELECT * FROM turno.held($1)", &[(&token.as_uuid(), Type::UUID)]).await?;
        rows.iter().map(rows::claimed_job).collect()
    }

    async fn heartbeat(&self, beats: &[Beat], lease: Duration) -> Result<Vec<HeartbeatAnswer>> {
        let mut answers = Vec::with_capacity(beats.len());
        for beats in beats.chunks(limits::HEARTBEAT_JOBS_MAX) {
            let proofs = Proofs::new(beats.iter().map(|beat| beat.proof));
            let started = proofs.column(|i, _| beats[i].started);
            let columns = Columns::of(&proofs);
            let [jobs, attempts, tokens] = columns.params();
            let params = [
                jobs,
                attempts,
                tokens,
                (&whole_ms(lease) as _, Type::INT8),
                (&started as _, Type::BOOL_ARRAY),
            ];
            let rows = self.call_now("SELECT * FROM turno.heartbeat($1, $2, $3, $4, $5)", &params).await?;
            answers.extend(proofs.answers(&rows, place, rows::heartbeat)?);
        }
        Ok(answers)
    }

    async fn complete(&self, worker: &str, completions: &[Completion]) -> Result<Vec<Settled>> {
        check_name("worker", worker)?;
        for completion in completions {
            if let Some(result) = &completion.result {
                check_json("result", result, self.options.payload_bytes_max)?;
            }
        }
        let mut answers = Vec::with_capacity(completions.len());
        for completions in completions.chunks(limits::SETTLE_JOBS_MAX) {
            let proofs = Proofs::new(completions.iter().map(|completion| completion.proof));
            let results = proofs.column(|i, _| completions[i].result.as_deref());
            let columns = Columns::of(&proofs);
            let [jobs, attempts, tokens] = columns.params();
            let params =
                [jobs, attempts, tokens, (&results as _, Type::TEXT_ARRAY), (&worker as _, Type::TEXT)];
            let rows = self.call("SELECT * FROM turno.complete_many($1, $2, $3, $4, $5)", &params).await?;
            answers.extend(proofs.answers(&rows, place, rows::settled)?);
        }
        Ok(answers)
    }

    async fn fail(&self, worker: &str, failures: &[Failure]) -> Result<Vec<Settled>> {
        check_name("worker", worker)?;
        let mut answers = Vec::with_capacity(failures.len());
        for failures in failures.chunks(limits::SETTLE_JOBS_MAX) {
            let proofs = Proofs::new(failures.iter().map(|failure| failure.proof));
            let (errors, bytes): (Vec<String>, Vec<i64>) =
                proofs.column(|i, _| cut_error(&failures[i].error)).into_iter().unzip();
            let retries = proofs.column(|i, _| match failures[i].retry {
                Retry::Policy => None,
                Retry::In(delay) => Some(whole_ms(delay)),
                Retry::Never => Some(-1),
            });
            let columns = Columns::of(&proofs);
            let [jobs, attempts, tokens] = columns.params();
            let params = [
                jobs,
                attempts,
                tokens,
                (&errors as _, Type::TEXT_ARRAY),
                (&retries as _, Type::INT8_ARRAY),
                (&worker as _, Type::TEXT),
                (&bytes as _, Type::INT8_ARRAY),
            ];
            let rows =
                self.call("SELECT * FROM turno.fail_many($1, $2, $3, $4, $5, $6, $7)", &params).await?;
            answers.extend(proofs.answers(&rows, place, rows::settled)?);
        }
        Ok(answers)
    }

    async fn release(&self, worker: &str, releases: &[Release]) -> Result<Vec<Settled>> {
        check_name("worker", worker)?;
        let mut answers = Vec::with_capacity(releases.len());
        for releases in releases.chunks(limits::SETTLE_JOBS_MAX) {
            let proofs = Proofs::new(releases.iter().map(|release| release.proof));
            let delays = proofs.column(|i, _| optional_ms(releases[i].delay));
            let columns = Columns::of(&proofs);
            let [jobs, attempts, tokens] = columns.params();
            let params =
                [jobs, attempts, tokens, (&delays as _, Type::INT8_ARRAY), (&worker as _, Type::TEXT)];
            let rows = self.call("SELECT * FROM turno.release_many($1, $2, $3, $4, $5)", &params).await?;
            answers.extend(proofs.answers(&rows, place, rows::settled)?);
        }
        Ok(answers)
    }

    async fn refused_record(&self, worker: &str, refused: &Refused) -> Result<()> {
        check_name("worker", worker)?;
        let detail = refused.detail.as_deref().map(|detail| cut_error(detail).0);
        let params: [Param<'_>; 6] = [
            (&refused.proof.job.0, Type::INT8),
            (&refused.proof.attempt, Type::INT8),
            (&refused.proof.token.as_uuid(), Type::UUID),
            (&refused.verb.as_str(), Type::TEXT),
            (&detail, Type::TEXT),
            (&worker, Type::TEXT),
        ];
        self.call("SELECT turno.refused_record($1, $2, $3, $4, $5, $6)", &params).await.map(drop)
    }

    async fn reap(&self, limit: u32, grace: Duration) -> Result<Reaped> {
        let params: [Param<'_>; 2] = [(&(limit as i32), Type::INT4), (&whole_ms(grace), Type::INT8)];
        let rows = self.call_now("SELECT * FROM turno.reap($1, $2)", &params).await?;
        let holding_for =
            rows.first().and_then(|row| row.get::<_, Option<i64>>("holding_for_ms")).map(rows::millis);
        let jobs = rows.iter().filter(|row| row.get::<_, Option<i64>>("job_id").is_some());
        Ok(Reaped { jobs: jobs.map(rows::lease_loss).collect::<Result<_>>()?, holding_for })
    }

    async fn promote(&self, queues: &[String], limit: u32) -> Result<u64> {
        check_queues(queues)?;
        let params: [Param<'_>; 2] = [(&queues, Type::TEXT_ARRAY), (&(limit as i32), Type::INT4)];
        let row = self.call_one("SELECT turno.promote($1, $2) AS n", &params).await?;
        Ok(row.get::<_, i32>("n").max(0) as u64)
    }

    async fn cancel(&self, job: JobId, force: bool) -> Result<CancelAnswer> {
        let params: [Param<'_>; 2] = [(&job.0, Type::INT8), (&force, Type::BOOL)];
        rows::cancel(&self.call_one("SELECT * FROM turno.cancel($1, $2)", &params).await?)
    }

    async fn retry(&self, job: JobId) -> Result<()> {
        self.call("SELECT turno.retry($1)", &[(&job.0, Type::INT8)]).await.map(drop)
    }

    async fn reprioritize(&self, job: JobId, priority: i32) -> Result<()> {
        let params: [Param<'_>; 2] = [(&job.0, Type::INT8), (&priority, Type::INT4)];
        self.call("SELECT turno.reprioritize($1, $2)", &params).await.map(drop)
    }

    async fn pause(&self, queue: &str) -> Result<()> {
        check_name("queue", queue)?;
        self.call("SELECT turno.pause($1)", &[(&queue, Type::TEXT)]).await.map(drop)
    }

    async fn resume(&self, queue: &str) -> Result<()> {
        check_name("queue", queue)?;
        self.call("SELECT turno.resume($1)", &[(&queue, Type::TEXT)]).await.map(drop)
    }

    async fn queue_set(&self, queue: Option<&str>, change: &SettingsChange) -> Result<QueueSettings> {
        if let Some(queue) = queue {
            check_name("queue", queue)?;
        }
        if change.aging.flatten().is_some_and(|aging| aging.is_zero()) {
            return Err(Error::invalid("aging has an interval of at least 1 ms"));
        }
        let queue = queue.unwrap_or("");
        let keep = |keep: Option<Keep>| {
            keep.map(|keep| match keep {
                Keep::For(duration) => whole_ms(duration),
                Keep::Forever => -1,
            })
        };
        let aging = change.aging.map(|aging| optional_ms(aging).unwrap_or(0));
        let horizon = change.run_at_horizon.map(|horizon| optional_ms(horizon).unwrap_or(-1));
        let params: [Param<'_>; 14] = [
            (&queue, Type::TEXT),
            (&change.description, Type::TEXT),
            (&aging, Type::INT8),
            (&change.max_attempts.map(|n| n as i32), Type::INT4),
            (&optional_ms(change.max_run), Type::INT8),
            (&optional_ms(change.retry_base), Type::INT8),
            (&optional_ms(change.retry_cap), Type::INT8),
            (&change.max_attempts_limit.map(|n| n as i32), Type::INT4),
            (&optional_ms(change.max_run_limit), Type::INT8),
            (&horizon, Type::INT8),
            (&keep(change.keep_succeeded), Type::INT8),
            (&keep(change.keep_cancelled), Type::INT8),
            (&keep(change.keep_dead), Type::INT8),
            (&optional_ms(change.receipts), Type::INT8),
        ];
        let sql =
            "SELECT * FROM turno.queue_set($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
        let settings = rows::queue_settings(&self.call_one(sql, &params).await?);
        let mut after = aging.map(|_| 0i64);
        while let Some(from) = after {
            let limit = limits::MAINTENANCE_ROWS_MAX as i32;
            let params: [Param<'_>; 3] = [(&queue, Type::TEXT), (&from, Type::INT8), (&limit, Type::INT4)];
            after = self.call_one("SELECT turno.rerank($1, $2, $3) AS after", &params).await?.get("after");
        }
        Ok(settings)
    }

    async fn queue_list(&self) -> Result<Vec<QueueSettings>> {
        let rows = self.call("SELECT * FROM turno.queue_list()", &[]).await?;
        Ok(rows.iter().map(rows::queue_settings).collect())
    }

    async fn schedule_put(&self, schedule: &Schedule) -> Result<PutAnswer> {
        self.put_schedule(schedule).await
    }

    async fn schedule_list(
        &self,
        name: Option<&str>,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<ScheduleRecord>> {
        self.list_schedules(name, after, limit).await
    }

    async fn schedule_pause(&self, name: &str) -> Result<()> {
        self.change_schedule("SELECT turno.schedule_pause($1)", name).await
    }

    async fn schedule_resume(&self, name: &str) -> Result<()> {
        self.change_schedule("SELECT turno.schedule_resume($1)", name).await
    }

    async fn schedule_remove(&self, name: &str) -> Result<()> {
        self.change_schedule("SELECT turno.schedule_remove($1)", name).await
    }

    async fn schedule_due(&self, limit: u32) -> Result<DueSchedules> {
        self.due_schedules(limit).await
    }

    async fn schedule_fire(&self, firing: &Firing) -> Result<Fired> {
        self.fire_schedule(firing).await
    }

    async fn prune(&self, limit: u32) -> Result<Pruned> {
        let row = self.call_one("SELECT * FROM turno.prune($1)", &[(&(limit as i32), Type::INT4)]).await?;
        let count = |column: &str| row.get::<_, i64>(column).max(0) as u64;
        Ok(Pruned { jobs: count("jobs"), refused: count("refused"), schedule_runs: count("schedule_runs") })
    }

    async fn forget(&self, job: JobId) -> Result<()> {
        self.call("SELECT turno.forget($1)", &[(&job.0, Type::INT8)]).await.map(drop)
    }

    async fn stats(&self, window: Duration) -> Result<Vec<QueueStats>> {
        let rows = self.call("SELECT * FROM turno.stats($1)", &[(&whole_ms(window), Type::INT8)]).await?;
        Ok(rows.iter().map(rows::queue_stats).collect())
    }

    async fn audit(&self) -> Result<Vec<Finding>> {
        Ok(self.call("SELECT * FROM turno.audit()", &[]).await?.iter().map(rows::finding).collect())
    }

    async fn unhandled(&self, queue: &str) -> Result<Vec<Unhandled>> {
        check_name("queue", queue)?;
        let rows = self.call("SELECT * FROM turno.unhandled($1)", &[(&queue, Type::TEXT)]).await?;
        Ok(rows.iter().map(|row| rows::unhandled(queue, row)).collect())
    }

    async fn doctor(&self, options: &DoctorOptions) -> Vec<Check> {
        doctor::doctor(&self.options, options).await
    }

    async fn oldest_transaction(&self) -> Result<Option<Duration>> {
        doctor::oldest_transaction(&self.caller).await
    }

    fn usage(&self) -> Usage {
        let (connections, calls_repeated) = self.caller.usage();
        Usage { connections: connections + u64::from(self.doorbell.is_connected()), calls_repeated }
    }

    async fn job(&self, job: JobId) -> Result<Option<JobRecord>> {
        let rows = self.call("SELECT * FROM turno.job($1)", &[(&job.0, Type::INT8)]).await?;
        rows.first().map(rows::job_record).transpose()
    }

    async fn jobs(&self, filter: &JobFilter) -> Result<JobsPage> {
        let params: [Param<'_>; 5] = [
            (&filter.state.as_str(), Type::TEXT),
            (&filter.queue, Type::TEXT),
            (&filter.kind, Type::TEXT),
            (&filter.before.map(|id| id.0), Type::INT8),
            (&(filter.limit as i32), Type::INT4),
        ];
        rows::jobs_page(&self.call("SELECT * FROM turno.jobs($1, $2, $3, $4, $5)", &params).await?)
    }

    async fn find(&self, search: &KeySearch) -> Result<JobsPage> {
        check_key("key", &search.key)?;
        let params: [Param<'_>; 4] = [
            (&search.key, Type::TEXT),
            (&search.queue, Type::TEXT),
            (&search.before.map(|id| id.0), Type::INT8),
            (&(search.limit as i32), Type::INT4),
        ];
        rows::jobs_page(&self.call("SELECT * FROM turno.find($1, $2, $3, $4)", &params).await?)
    }

    async fn attempts(&self, job: JobId) -> Result<Vec<AttemptRecord>> {
        let rows = self.call("SELECT * FROM turno.attempts($1)", &[(&job.0, Type::INT8)]).await?;
        rows.iter().map(rows::attempt).collect()
    }

    async fn refused(
        &self,
        job: Option<JobId>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<RefusedRecord>> {
        let params: [Param<'_>; 3] =
            [(&job.map(|id| id.0), Type::INT8), (&before, Type::INT8), (&(limit as i32), Type::INT4)];
        let rows = self.call("SELECT * FROM turno.refused($1, $2, $3)", &params).await?;
        rows.iter().map(rows::refused).collect()
    }

    async fn wait(&self, queues: &[String], ttl: Duration) -> Result<()> {
        check_queues(queues)?;
        if ttl.is_zero() || ttl > WAIT_MAX {
            return Err(Error::invalid(format!("a wait of {ttl:?} is not between 1 ms and 1 hour")));
        }
        if !self.doorbell.listens() {
            return Ok(());
        }
        let params: [Param<'_>; 2] = [(&queues, Type::TEXT_ARRAY), (&whole_ms(ttl), Type::INT8)];
        self.call_now("SELECT turno.wait($1, $2)", &params).await.map(drop)
    }

    fn doorbell(&self) -> watch::Receiver<u64> {
        self.doorbell.subscribe()
    }
}
