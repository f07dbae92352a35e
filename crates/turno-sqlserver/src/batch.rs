//! Batches as the JSON arrays that the routines take.

use serde_json::json;
use turno_contract::{NewJob, job_batches, whole_ms};

use crate::call::{Call, Value};
use crate::rows;

/// The one call of a single job.
pub(crate) fn enqueue_call(job: &NewJob) -> Call {
    let mut params: Vec<Value> =
        vec![job.queue.as_str().into(), job.kind.as_str().into(), job.payload.as_str().into()];
    params.extend(job.priority.map(Value::from));
    params.extend([
        job.run_at_rounded().map(rows::utc).into(),
        job.max_attempts.into(),
        job.max_run.map(whole_ms).into(),
        job.unique_key.as_deref().into(),
        job.idempotency_key.as_deref().into(),
        job.traceparent_kept().into(),
    ]);
    let sql = match job.priority {
        None => "EXEC turno.enqueue @P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8, @P9",
        Some(_) => "EXEC turno.enqueue_prioritized @P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8, @P9, @P10",
    };
    Call { sql: sql.into(), params }
}

/// Calls of enqueue_many for these jobs, and for each of them the places of its rows in the request.
pub(crate) fn enqueue_calls(jobs: &[NewJob]) -> (Vec<Call>, Vec<Vec<usize>>) {
    let prioritized = jobs.iter().any(|job| job.priority.is_some());
    let sql = match prioritized {
        true => "EXEC turno.enqueue_many_prioritized @P1",
        false => "EXEC turno.enqueue_many @P1",
    };
    job_batches(jobs, |at| json!(rows::text(at)))
        .into_iter()
        .map(|batch| (Call { sql: sql.into(), params: vec![batch.json.into()] }, batch.places))
        .unzip()
}
