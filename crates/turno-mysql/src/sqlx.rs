//! The caller's transaction when it is sqlx's. Feature `sqlx`.

use mysql_async::ServerError;
use sqlx::mysql::{MySqlConnection, MySqlDatabaseError, MySqlRow};
use sqlx::{AssertSqlSafe, Row, query};
use turno_contract::{
    Completion, Enqueued, Error, ErrorKind, JobId, NewJob, Result, Settled, SettledStatus, check_jobs,
    check_json, check_name, whole_ms,
};

use crate::MysqlBackend;
use crate::batch::enqueue_sql;
use crate::error::in_transaction;
use crate::rows::{self, micros};
use crate::transaction::COMPLETE_SQL;

impl MysqlBackend {
    /// [`enqueue_in`](MysqlBackend::enqueue_in) on sqlx's connection: pass `&mut *transaction`.
    pub async fn enqueue_in_sqlx(&self, connection: &mut MySqlConnection, job: &NewJob) -> Result<Enqueued> {
        check_jobs(std::slice::from_ref(job), self.payload_bytes_max())?;
        let sql = self.text(enqueue_sql(job)).into_owned();
        let mut call = query(AssertSqlSafe(sql)).bind(&job.queue).bind(&job.kind).bind(&job.payload);
        if let Some(priority) = job.priority {
            call = call.bind(priority);
        }
        let rows = call
            .bind(job.run_at_rounded().map(micros))
            .bind(job.max_attempts)
            .bind(job.max_run.map(whole_ms))
            .bind(&job.unique_key)
            .bind(&job.idempotency_key)
            .bind(job.traceparent_kept())
            .fetch_all(connection)
            .await
            .map_err(map)?;
        self.ring_after_commit();
        let row = first(&rows)?;
        Ok(Enqueued { id: JobId(get(row, "id")?), created: get::<i64>(row, "created")? != 0 })
    }

    /// [`complete_in`](MysqlBackend::complete_in) on sqlx's connection: pass `&mut *transaction`. If it is refused the
    /// transaction must be rolled back, as sqlx does when it is dropped.
    pub async fn complete_in_sqlx(
        &self,
        connection: &mut MySqlConnection,
        worker: &str,
        completion: &Completion,
    ) -> Result<Settled> {
        check_name("worker", worker)?;
        if let Some(result) = &completion.result {
            check_json("result", result, self.payload_bytes_max())?;
        }
        let proof = completion.proof;
        let rows = query(AssertSqlSafe(self.text(COMPLETE_SQL).into_owned()))
            .bind(proof.job.0)
            .bind(proof.attempt)
            .bind(proof.token.as_uuid().to_string())
            .bind(&completion.result)
            .bind(worker)
            .fetch_all(connection)
            .await
            .map_err(map)?;
        let row = first(&rows)?;
        let done = get::<String>(row, "status")? == "done";
        Ok(Settled {
            status: if done { SettledStatus::Done } else { SettledStatus::Already },
            state: Some(get::<String>(row, "state")?.parse()?),
            run_at: get::<Option<i64>>(row, "run_at")?.map(rows::at).transpose()?,
            reason: None,
        })
    }
}

fn first(rows: &[MySqlRow]) -> Result<&MySqlRow> {
    rows.first().ok_or_else(|| Error::new(ErrorKind::Internal, "the routine answered no row"))
}

fn get<'r, T: sqlx::Decode<'r, sqlx::MySql> + sqlx::Type<sqlx::MySql>>(
    row: &'r MySqlRow,
    column: &str,
) -> Result<T> {
    row.try_get(column).map_err(map)
}

fn map(error: sqlx::Error) -> Error {
    let server = error.as_database_error().and_then(|db| db.try_downcast_ref::<MySqlDatabaseError>());
    match server {
        Some(db) => in_transaction(mysql_async::Error::Server(ServerError {
            code: db.number(),
            message: db.message().to_owned(),
            state: db.code().unwrap_or_default().to_owned(),
        })),
        None => {
            Error::new(ErrorKind::Unavailable, error.to_string()).with_source(error).with_outcome_unknown()
        }
    }
}
