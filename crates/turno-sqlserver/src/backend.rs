//! The operations as calls of their routines, one line of SQL each.

use std::borrow::Cow;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use tiberius::Row;
use tokio::sync::{OnceCell, watch};
use turno_contract::doctor::{Check, DoctorOptions};
use turno_contract::schema_files::SchemaFiles;
use turno_contract::{
    AttemptRecord, Backend, Beat, CancelAnswer, ClaimRequest, Claimed, ClaimedJob, Completion, DueSchedules,
    Engine, Enqueued, Error, ErrorKind, Failure, Finding, Fired, Firing, HeartbeatAnswer, JobFilter, JobId,
    JobRecord, JobsPage, Keep, KeySearch, MigrateReport, NewJob, Proofs, Pruned, PutAnswer, QueueSettings,
    QueueStats, Reaped, Refused, RefusedRecord, Release, Result, Retry, Schedule, ScheduleRecord,
    SettingsChange, Settled, Token, Unhandled, Usage, check_jobs, check_json, check_key, check_name,
    cut_error, json_list, limits, whole_ms,
};

use crate::batch::{enqueue_call, enqueue_calls};
use crate::call::{Call, Caller, Value};
use crate::error::from_call;
use crate::options::SqlServerOptions;
use crate::{doctor, files, migrate, rows};

/// Longest mark of a sleeper, as the routine has it.
const WAIT_MAX: Duration = Duration::from_secs(3600);
/// When the doorbell rings again for what a caller's transaction has enqueued: it may have committed by then.
const COMMITTED_AFTER: Duration = Duration::from_millis(50);

/// An installation in a database of SQL Server or Azure SQL. Cheap to call from anywhere; share it by `Arc`.
pub struct SqlServerBackend {
    options: SqlServerOptions,
    caller: Caller,
    doorbell: watch::Sender<u64>,
    schema_checked: OnceCell<()>,
    schema_files: SchemaFiles,
}

impl SqlServerBackend {
    /// Connects once, to report a wrong URL now. The schema is looked at by the first operation.
    ///
    /// Errors: `InvalidArgument` for a URL that is not one, `Unavailable`, `PermissionDenied`, `NotFound` for the database.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::connect_with(SqlServerOptions::from_str(url)?).await
    }

    /// The same with options.
    pub async fn connect_with(options: SqlServerOptions) -> Result<Self> {
        let caller = Caller::new(options.clone())?;
        caller
            .with_connection(|connection| async move { connection.close().await.map_err(from_call) })
            .await?;
        let doorbell = watch::Sender::new(0);
        let schema_files = migrate::schema_files(options.ahead);
        Ok(SqlServerBackend { options, caller, doorbell, schema_checked: OnceCell::new(), schema_files })
    }

    /// The text for this installation's database.
    pub(crate) fn text<'a>(&self, sql: &'a str) -> Cow<'a, str> {
        match self.options.schema.as_str() {
            "turno" => Cow::Borrowed(sql),
            schema => Cow::Owned(files::in_schema(sql, schema)),
        }
    }

    /// How many calls this backend has made again because the server had rolled them back (rule X3).
    pub fn calls_repeated(&self) -> u64 {
        self.caller.repeated()
    }

    /// How to reach the installation.
    pub(crate) fn options(&self) -> &SqlServerOptions {
        &self.options
    }

    /// What makes calls.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    pub(crate) fn payload_bytes_max(&self) -> usize {
        self.options.payload_bytes_max
    }

    pub(crate) fn ring(&self) {
        self.doorbell.send_modify(|rings| *rings += 1);
    }

    /// Nobody tells us when the caller commits: rings now, and again when it may have.
    pub(crate) fn ring_after_commit(&self) {
        let doorbell = self.doorbell.clone();
        self.ring();
        self.caller.later(COMMITTED_AFTER, move || doorbell.send_modify(|rings| *rings += 1));
    }

    pub(crate) fn call_of(&self, sql: &str, params: Vec<Value>) -> Call {
        Call { sql: self.text(sql).into_owned(), params }
    }

    /// A call that never waits for rows or keys that others hold.
    pub(crate) async fn call_now(&self, sql: &str, params: Vec<Value>) -> Result<Vec<Row>> {
        self.schema_checked.get_or_try_init(|| self.check_schema()).await?;
        self.caller.call(self.call_of(sql, params), false).await
    }

    pub(crate) async fn call(&self, sql: &str, params: Vec<Value>) -> Result<Vec<Row>> {
        self.schema_checked.get_or_try_init(|| self.check_schema()).await?;
        self.caller.call(self.call_of(sql, params), true).await
    }

    pub(crate) async fn call_one(&self, sql: &str, params: Vec<Value>) -> Result<Row> {
        let mut rows = self.call(sql, params).await?;
        rows.pop().ok_or_else(|| Error::new(ErrorKind::Internal, "the routine answered no row"))
    }

    async fn check_schema(&self) -> Result<()> {
        let rows = self.caller.call(self.call_of("EXEC turno.schema_version", Vec::new()), false).await?;
        let row = rows
            .first()
            .ok_or_else(|| Error::new(ErrorKind::VersionMismatch, "the schema has no version"))?;
        self.schema_files.check_version(rows::get(row, "version")?, rows::get(row, "oldest_binary")?)
    }

    async fn settle(&self, sql: &str, worker: &str, batch: String, proofs: &Proofs) -> Result<Vec<Settled>> {
        let rows = self.call(sql, vec![batch.into(), worker.into()]).await?;
        proofs.answers(&rows, rows::place, rows::settled)
    }

    async fn rerank(&self, queue: &str) -> Result<()> {
        let mut after = Some(0i64);
        while let Some(from) = after {
            let params = vec![queue.into(), from.into(), limits::MAINTENANCE_ROWS_MAX.into()];
            after = rows::get(&self.call_one("EXEC turno.rerank @P1, @P2, @P3", params).await?, "after_id")?;
        }
        Ok(())
    }
}

fn check_queues(queues: &[String]) -> Result<()> {
    queues.iter().try_for_each(|queue| check_name("queue", queue))
}

fn optional_ms(duration: Option<Duration>) -> Value {
    duration.map(whole_ms).into()
}

#[async_trait]
impl Backend for SqlServerBackend {
    fn engine(&self) -> Engine {
        Engine::Sqlserver
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
        migrate::migrate(&self.caller, &self.options.schema, &self.schema_files, check).await
    }

    async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        check_jobs(jobs, self.options.payload_bytes_max)?;
        let answers = match jobs {
            [] => return Ok(Vec::new()),
            [job] => {
                let Call { sql, params } = enqueue_call(job);
                vec![rows::enqueued(&self.call_one(&sql, params).await?)?]
            }
            _ => self.enqueue_many(jobs).await?,
        };
        self.ring();
        Ok(answers)
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed> {
        request.check()?;
        let from_ranks = match request.from_ranks.as_slice() {
            [] => Value::Text(None),
            ranks => json_list(ranks)?.into(),
        };
        let params = vec![
            json_list(&request.queues)?.into(),
            request.worker.as_str().into(),
            request.limit.into(),
            whole_ms(request.lease).into(),
            request.token.as_uuid().into(),
            request.start.into(),
            from_ranks,
        ];
        let rows = self.call_now("EXEC turno.claim @P1, @P2, @P3, @P4, @P5, @P6, @P7", params).await?;
        let mut claimed = Claimed::default();
        for row in &rows {
            claimed.next_due_in = rows::get::<Option<i64>>(row, "next_due_in_ms")?.map(rows::millis);
            if rows::get::<Option<i64>>(row, "id")?.is_some() {
                claimed.jobs.push(rows::claimed_job(row)?);
            }
        }
        Ok(claimed)
    }

    async fn held(&self, token: Token) -> Result<Vec<ClaimedJob>> {
        let rows = self.call_now("EXEC turno.held @P1", vec![token.as_uuid().into()]).await?;
        rows.iter().map(rows::claimed_job).collect()
    }

    async fn heartbeat(&self, beats: &[Beat], lease: Duration) -> Result<Vec<HeartbeatAnswer>> {
        let mut answers = Vec::with_capacity(beats.len());
        for beats in beats.chunks(limits::HEARTBEAT_JOBS_MAX) {
            let proofs = Proofs::new(beats.iter().map(|beat| beat.proof));
            let batch = proofs.json(|i, object| {
                object.insert("started".into(), json!(beats[i].started));
            })?;
            let rows = self
                .call_now("EXEC turno.heartbeat @P1, @P2", vec![batch.into(), whole_ms(lease).into()])
                .await?;
            answers.extend(proofs.answers(&rows, rows::place, rows::heartbeat)?);
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
            let batch = proofs.json(|i, object| {
                if let Some(result) = &completions[i].result {
                    object.insert("result".into(), json!(result));
                }
            })?;
            answers.extend(self.settle("EXEC turno.complete_many @P1, @P2", worker, batch, &proofs).await?);
        }
        Ok(answers)
    }

    async fn fail(&self, worker: &str, failures: &[Failure]) -> Result<Vec<Settled>> {
        check_name("worker", worker)?;
        let mut answers = Vec::with_capacity(failures.len());
        for failures in failures.chunks(limits::SETTLE_JOBS_MAX) {
            let proofs = Proofs::new(failures.iter().map(|failure| failure.proof));
            let batch = proofs.json(|i, object| {
                let (error, bytes) = cut_error(&failures[i].error);
                object.insert("error".into(), json!(error));
                object.insert("error_bytes".into(), json!(bytes));
                let retry_ms = match failures[i].retry {
                    Retry::Policy => return,
                    Retry::In(delay) => whole_ms(delay),
                    Retry::Never => -1,
                };
                object.insert("retry_ms".into(), json!(retry_ms));
            })?;
            answers.extend(self.settle("EXEC turno.fail_many @P1, @P2", worker, batch, &proofs).await?);
        }
        Ok(answers)
    }

    async fn release(&self, worker: &str, releases: &[Release]) -> Result<Vec<Settled>> {
        check_name("worker", worker)?;
        let mut answers = Vec::with_capacity(releases.len());
        for releases in releases.chunks(limits::SETTLE_JOBS_MAX) {
            let proofs = Proofs::new(releases.iter().map(|release| release.proof));
            let batch = proofs.json(|i, object| {
                if let Some(delay) = releases[i].delay {
                    object.insert("delay_ms".into(), json!(whole_ms(delay)));
                }
            })?;
            answers.extend(self.settle("EXEC turno.release_many @P1, @P2", worker, batch, &proofs).await?);
        }
        self.ring();
        Ok(answers)
    }

    async fn refused_record(&self, worker: &str, refused: &Refused) -> Result<()> {
        check_name("worker", worker)?;
        let params = vec![
            refused.proof.job.0.into(),
            refused.proof.attempt.into(),
            refused.proof.token.as_uuid().into(),
            refused.verb.as_str().into(),
            refused.detail.as_deref().map(|detail| cut_error(detail).0).into(),
            worker.into(),
        ];
        self.call("EXEC turno.refused_record @P1, @P2, @P3, @P4, @P5, @P6", params).await.map(drop)
    }

    async fn reap(&self, limit: u32, grace: Duration) -> Result<Reaped> {
        let rows =
            self.call_now("EXEC turno.reap @P1, @P2", vec![limit.into(), whole_ms(grace).into()]).await?;
        let mut reaped = Reaped::default();
        for row in &rows {
            match rows::get::<Option<i64>>(row, "job_id")? {
                Some(_) => reaped.jobs.push(rows::lease_loss(row)?),
                None => {
                    reaped.holding_for = rows::get::<Option<i64>>(row, "holding_for_ms")?.map(rows::millis)
                }
            }
        }
        Ok(reaped)
    }

    async fn promote(&self, queues: &[String], limit: u32) -> Result<u64> {
        check_queues(queues)?;
        let row = self
            .call_one("EXEC turno.promote @P1, @P2", vec![json_list(queues)?.into(), limit.into()])
            .await?;
        let promoted: i64 = rows::get(&row, "promoted")?;
        if promoted > 0 {
            self.ring();
        }
        Ok(promoted.max(0) as u64)
    }

    async fn cancel(&self, job: JobId, force: bool) -> Result<CancelAnswer> {
        rows::cancel(&self.call_one("EXEC turno.cancel @P1, @P2", vec![job.0.into(), force.into()]).await?)
    }

    async fn retry(&self, job: JobId) -> Result<()> {
        self.call("EXEC turno.retry @P1", vec![job.0.into()]).await?;
        self.ring();
        Ok(())
    }

    async fn reprioritize(&self, job: JobId, priority: i32) -> Result<()> {
        self.call("EXEC turno.reprioritize @P1, @P2", vec![job.0.into(), priority.into()]).await.map(drop)
    }

    async fn pause(&self, queue: &str) -> Result<()> {
        check_name("queue", queue)?;
        self.call("EXEC turno.pause @P1", vec![queue.into()]).await.map(drop)
    }

    async fn resume(&self, queue: &str) -> Result<()> {
        check_name("queue", queue)?;
        self.call("EXEC turno.resume @P1", vec![queue.into()]).await?;
        self.ring();
        Ok(())
    }

    async fn queue_set(&self, queue: Option<&str>, change: &SettingsChange) -> Result<QueueSettings> {
        if let Some(queue) = queue {
            check_name("queue", queue)?;
        }
        if change.aging.flatten().is_some_and(|aging| aging.is_zero()) {
            return Err(Error::invalid("aging has an interval of at least 1 ms"));
        }
        let queue = queue.unwrap_or("");
        let keep = |keep: Option<Keep>| -> Value {
            keep.map(|keep| match keep {
                Keep::For(duration) => whole_ms(duration),
                Keep::Forever => -1,
            })
            .into()
        };
        let params = vec![
            queue.into(),
            change.description.as_deref().into(),
            change.aging.map(|aging| aging.map_or(0, whole_ms)).into(),
            change.max_attempts.into(),
            optional_ms(change.max_run),
            optional_ms(change.retry_base),
            optional_ms(change.retry_cap),
            change.max_attempts_limit.into(),
            optional_ms(change.max_run_limit),
            change.run_at_horizon.map(|horizon| horizon.map_or(-1, whole_ms)).into(),
            keep(change.keep_succeeded),
            keep(change.keep_cancelled),
            keep(change.keep_dead),
            optional_ms(change.receipts),
        ];
        let sql =
            "EXEC turno.queue_set @P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8, @P9, @P10, @P11, @P12, @P13, @P14";
        let settings = rows::queue_settings(&self.call_one(sql, params).await?)?;
        if change.aging.is_some() {
            self.rerank(queue).await?;
        }
        Ok(settings)
    }

    async fn queue_list(&self) -> Result<Vec<QueueSettings>> {
        self.call("EXEC turno.queue_list", Vec::new()).await?.iter().map(rows::queue_settings).collect()
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
        self.change_schedule("EXEC turno.schedule_pause @P1", name).await
    }

    async fn schedule_resume(&self, name: &str) -> Result<()> {
        self.change_schedule("EXEC turno.schedule_resume @P1", name).await
    }

    async fn schedule_remove(&self, name: &str) -> Result<()> {
        self.change_schedule("EXEC turno.schedule_remove @P1", name).await
    }

    async fn schedule_due(&self, limit: u32) -> Result<DueSchedules> {
        self.due_schedules(limit).await
    }

    async fn schedule_fire(&self, firing: &Firing) -> Result<Fired> {
        self.fire_schedule(firing).await
    }

    async fn prune(&self, limit: u32) -> Result<Pruned> {
        let row = self.call_one("EXEC turno.prune @P1", vec![limit.into()]).await?;
        rows::pruned(&row)
    }

    async fn forget(&self, job: JobId) -> Result<()> {
        self.call("EXEC turno.forget @P1", vec![job.0.into()]).await.map(drop)
    }

    async fn stats(&self, window: Duration) -> Result<Vec<QueueStats>> {
        let rows = self.call("EXEC turno.stats @P1", vec![whole_ms(window).into()]).await?;
        rows.iter().map(rows::queue_stats).collect()
    }

    async fn audit(&self) -> Result<Vec<Finding>> {
        self.call("EXEC turno.audit", Vec::new()).await?.iter().map(rows::finding).collect()
    }

    async fn unhandled(&self, queue: &str) -> Result<Vec<Unhandled>> {
        check_name("queue", queue)?;
        let rows = self.call("EXEC turno.unhandled @P1", vec![queue.into()]).await?;
        rows.iter().map(|row| rows::unhandled(queue, row)).collect()
    }

    async fn doctor(&self, options: &DoctorOptions) -> Vec<Check> {
        doctor::doctor(self, options).await
    }

    async fn oldest_transaction(&self) -> Result<Option<Duration>> {
        doctor::oldest_transaction(self).await
    }

    fn usage(&self) -> Usage {
        self.caller.usage()
    }

    async fn job(&self, job: JobId) -> Result<Option<JobRecord>> {
        let rows = self.call("EXEC turno.job @P1", vec![job.0.into()]).await?;
        rows.first().map(rows::job_record).transpose()
    }

    async fn jobs(&self, filter: &JobFilter) -> Result<JobsPage> {
        let params = vec![
            filter.state.as_str().into(),
            filter.queue.as_deref().into(),
            filter.kind.as_deref().into(),
            filter.before.map(|id| id.0).into(),
            filter.limit.into(),
        ];
        rows::jobs_page(&self.call("EXEC turno.jobs @P1, @P2, @P3, @P4, @P5", params).await?)
    }

    async fn find(&self, search: &KeySearch) -> Result<JobsPage> {
        check_key("key", &search.key)?;
        let params = vec![
            search.key.as_str().into(),
            search.queue.as_deref().into(),
            search.before.map(|id| id.0).into(),
            search.limit.into(),
        ];
        rows::jobs_page(&self.call("EXEC turno.find @P1, @P2, @P3, @P4", params).await?)
    }

    async fn attempts(&self, job: JobId) -> Result<Vec<AttemptRecord>> {
        let rows = self.call("EXEC turno.attempts @P1", vec![job.0.into()]).await?;
        rows.iter().map(rows::attempt).collect()
    }

    async fn refused(
        &self,
        job: Option<JobId>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<RefusedRecord>> {
        let params = vec![job.map(|id| id.0).into(), before.into(), limit.into()];
        let rows = self.call("EXEC turno.refused @P1, @P2, @P3", params).await?;
        rows.iter().map(rows::refused).collect()
    }

    async fn wait(&self, queues: &[String], ttl: Duration) -> Result<()> {
        check_queues(queues)?;
        if ttl.is_zero() || ttl > WAIT_MAX {
            return Err(Error::invalid(format!("a wait of {ttl:?} is not between 1 ms and 1 hour")));
        }
        // The server notifies nobody: there is nothing to mark (see the routine).
        Ok(())
    }

    fn doorbell(&self) -> watch::Receiver<u64> {
        self.doorbell.subscribe()
    }
}

impl SqlServerBackend {
    async fn enqueue_many(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        self.schema_checked.get_or_try_init(|| self.check_schema()).await?;
        let (calls, places) = enqueue_calls(jobs);
        let calls = calls.into_iter().map(|call| self.call_of(&call.sql, call.params)).collect();
        let mut answers: Vec<Option<Enqueued>> = vec![None; jobs.len()];
        for (rows, places) in self.caller.call_together(calls).await?.iter().zip(places) {
            for row in rows {
                if let Some(&i) = places.get(rows::place(row)?) {
                    answers[i] = Some(rows::enqueued(row)?);
                }
            }
        }
        let all: Option<Vec<Enqueued>> = answers.into_iter().collect();
        all.ok_or_else(|| Error::new(ErrorKind::Internal, "the routine left a row without an answer"))
    }
}
