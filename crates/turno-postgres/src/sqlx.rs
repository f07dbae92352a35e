//! The caller's transaction when it is sqlx's. Feature `sqlx`.

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Row, query};
use turno_contract::{
    Completion, Enqueued, Error, ErrorKind, JobId, NewJob, Result, Settled, SettledStatus, check_jobs,
    check_json, whole_ms,
};

use crate::PostgresBackend;
use crate::transaction::{COMPLETE_SQL, enqueue_sql};

impl PostgresBackend {
    /// [`enqueue_in`](PostgresBackend::enqueue_in) on sqlx's connection: pass `&mut *transaction`.
    pub async fn enqueue_in_sqlx(&self, connection: &mut PgConnection, job: &NewJob) -> Result<Enqueued> {
        check_jobs(std::slice::from_ref(job), self.payload_bytes_max())?;
        let sql = self.text(enqueue_sql(job)).into_owned();
        let mut call = query(sqlx::AssertSqlSafe(sql)).bind(&job.queue).bind(&job.kind).bind(&job.payload);
        if let Some(priority) = job.priority {
            call = call.bind(priority);
        }
        let row = call
            .bind(job.run_at_rounded())
            .bind(job.max_attempts.map(|n| n as i32))
            .bind(job.max_run.map(whole_ms))
            .bind(&job.unique_key)
            .bind(&job.idempotency_key)
            .bind(job.traceparent_kept())
            .fetch_one(connection)
            .await
            .map_err(map)?;
        Ok(Enqueued { id: JobId(get(&row, "id")?), created: get(&row, "created")? })
    }

    /// [`complete_in`](PostgresBackend::complete_in) on sqlx's connection: pass `&mut *transaction`.
    pub async fn complete_in_sqlx(
        &self,
        connection: &mut PgConnection,
        worker: &str,
        completion: &Completion,
    ) -> Result<Settled> {
        if let Some(result) = &completion.result {
            check_json("result", result, self.payload_bytes_max())?;
        }
        let proof = completion.proof;
        let row = query(sqlx::AssertSqlSafe(self.text(COMPLETE_SQL).into_owned()))
            .bind(proof.job.0)
            .bind(proof.attempt)
            .bind(proof.token.as_uuid())
            .bind(&completion.result)
            .bind(worker)
            .fetch_one(connection)
            .await
            .map_err(map)?;
        let status = if get::<String>(&row, "status")? == "done" {
            SettledStatus::Done
        } else {
            SettledStatus::Already
        };
        let state = get::<String>(&row, "state")?.parse()?;
        Ok(Settled { status, state: Some(state), run_at: get(&row, "run_at")?, reason: None })
    }
}

fn get<'r, T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>>(
    row: &'r PgRow,
    column: &str,
) -> Result<T> {
    row.try_get(column).map_err(map)
}

fn map(error: sqlx::Error) -> Error {
    let Some(db) = error.as_database_error() else {
        return Error::new(ErrorKind::Unavailable, error.to_string())
            .with_source(error)
            .with_outcome_unknown();
    };
    let code = db.code().unwrap_or_default().into_owned();
    let message = db.message().to_owned();
    crate::error::from_sqlstate(&code, message, error)
}
