//! Operations inside the caller's own transaction. What we would retry in a transaction of our own goes up as
//! `TransactionLost` here: the caller's work is rolled back with it (rule X3).

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use turno_contract::{
    Completion, Enqueued, Error, ErrorKind, NewJob, Result, Settled, check_jobs, check_json, whole_ms,
};

use crate::error::in_transaction;
use crate::{PostgresBackend, rows};

impl PostgresBackend {
    /// Enqueues inside the caller's transaction: the job exists if and when that commits (rule E1).
    ///
    /// Errors: `InvalidArgument`, `PermissionDenied`, `TransactionLost`. After any of them PostgreSQL commits nothing of the
    /// transaction.
    pub async fn enqueue_in(&self, transaction: &impl GenericClient, job: &NewJob) -> Result<Enqueued> {
        check_jobs(std::slice::from_ref(job), self.payload_bytes_max())?;
        let (max_attempts, max_run_ms) = (job.max_attempts.map(|n| n as i32), job.max_run.map(whole_ms));
        let (run_at, traceparent) = (job.run_at_rounded(), job.traceparent_kept());
        let mut params: Vec<crate::call::Param<'_>> =
            vec![(&job.queue, Type::TEXT), (&job.kind, Type::TEXT), (&job.payload, Type::TEXT)];
        if job.priority.is_some() {
            params.push((&job.priority, Type::INT4));
        }
        params.extend([
            (&run_at as _, Type::TIMESTAMPTZ),
            (&max_attempts as _, Type::INT4),
            (&max_run_ms as _, Type::INT8),
            (&job.unique_key as _, Type::TEXT),
            (&job.idempotency_key as _, Type::TEXT),
            (&traceparent as _, Type::TEXT),
        ]);
        let sql = enqueue_sql(job);
        let rows = transaction.query_typed(&self.text(sql), &params).await.map_err(in_transaction)?;
        rows.first().map(rows::enqueued).ok_or_else(no_row)
    }

    /// Completes inside the caller's transaction, so that the job's effects in this database and its completion commit
    /// together (rule S5).
    ///
    /// Errors: `LeaseLost`, `Conflict`, `NotFound` if it is refused, after which PostgreSQL commits nothing of the transaction:
    /// report it by [`refused_record`](turno_contract::Backend::refused_record). `TransactionLost`.
    pub async fn complete_in(
        &self,
        transaction: &impl GenericClient,
        worker: &str,
        completion: &Completion,
    ) -> Result<Settled> {
        if let Some(result) = &completion.result {
            check_json("result", result, self.payload_bytes_max())?;
        }
        let proof = completion.proof;
        let params: [crate::call::Param<'_>; 5] = [
            (&proof.job.0, Type::INT8),
            (&proof.attempt, Type::INT8),
            (&proof.token.as_uuid(), Type::UUID),
            (&completion.result, Type::TEXT),
            (&worker, Type::TEXT),
        ];
        let sql = self.text(COMPLETE_SQL);
        let rows = transaction.query_typed(&sql, &params).await.map_err(in_transaction)?;
        rows.first().map(rows::settled).ok_or_else(no_row)?
    }
}

pub(crate) const COMPLETE_SQL: &str = "SELECT * FROM turno.complete($1, $2, $3, $4, $5)";

pub(crate) fn enqueue_sql(job: &NewJob) -> &'static str {
    match job.priority {
        None => "SELECT * FROM turno.enqueue($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        Some(_) => "SELECT * FROM turno.enqueue_prioritized($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    }
}

fn no_row() -> Error {
    Error::new(ErrorKind::Internal, "the routine answered no row")
}
