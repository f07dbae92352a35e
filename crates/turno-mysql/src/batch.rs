//! Batches as the JSON arrays that the routines take. Nothing but what JSON must escape is escaped: MariaDB spoils
//! escaped pairs of surrogates.

use mysql_async::Value;
use serde_json::json;
use turno_contract::{NewJob, job_batches, whole_ms};

use crate::call::Call;
use crate::rows;

/// The one call of a single job.
pub(crate) fn enqueue_call(job: &NewJob) -> Call {
    let mut params: Vec<Value> =
        vec![job.queue.as_str().into(), job.kind.as_str().into(), job.payload.as_str().into()];
    params.extend(job.priority.map(Value::from));
    params.extend([
        job.run_at_rounded().map(rows::micros).into(),
        job.max_attempts.into(),
        job.max_run.map(whole_ms).into(),
        job.unique_key.as_deref().into(),
        job.idempotency_key.as_deref().into(),
        job.traceparent_kept().into(),
    ]);
    Call { sql: enqueue_sql(job).into(), params }
}

/// The text of that call.
pub(crate) fn enqueue_sql(job: &NewJob) -> &'static str {
    match job.priority {
        None => "CALL turno.enqueue(?, ?, ?, ?, ?, ?, ?, ?, ?)",
        Some(_) => "CALL turno.enqueue_prioritized(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    }
}

/// Calls of enqueue_many for these jobs, and for each of them the places of its rows in the request.
pub(crate) fn enqueue_calls(jobs: &[NewJob]) -> (Vec<Call>, Vec<Vec<usize>>) {
    let prioritized = jobs.iter().any(|job| job.priority.is_some());
    let sql =
        if prioritized { "CALL turno.enqueue_many_prioritized(?)" } else { "CALL turno.enqueue_many(?)" };
    job_batches(jobs, |at| json!(rows::micros(at)))
        .into_iter()
        .map(|batch| (Call { sql: sql.into(), params: vec![batch.json.into()] }, batch.places))
        .unzip()
}
