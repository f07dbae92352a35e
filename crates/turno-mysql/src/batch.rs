//! Batches as the JSON arrays that the routines take. Nothing but what JSON must escape is escaped: MariaDB spoils
//! escaped pairs of surrogates.

use std::time::Duration;

use mysql_async::{Row, Value};
use serde_json::{Map, json};
use turno_contract::{Error, ErrorKind, NewJob, Proof, Result};

use crate::call::Call;
use crate::rows;

/// Rows of one call of enqueue_many.
const ENQUEUE_ROWS_MAX: usize = 1000;
/// Bytes of one such call, unless a single row is larger: far below the smallest usual max_allowed_packet.
const ENQUEUE_BYTES_MAX: usize = 4 << 20;

pub(crate) fn ms(duration: Duration) -> i64 {
    // Rounded up: nothing may become shorter than it was asked for (rule T3).
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// A list of texts or numbers as a JSON array.
pub(crate) fn list<T: serde::Serialize + ?Sized>(values: &T) -> Result<Value> {
    let text = serde_json::to_string(values).map_err(|error| {
        Error::new(ErrorKind::Internal, "a list that JSON cannot hold").with_source(error)
    })?;
    Ok(Value::from(text))
}

/// Proofs in id order, so that two calls lock in one order.
pub(crate) struct Proofs {
    order: Vec<usize>,
    proofs: Vec<Proof>,
}

impl Proofs {
    pub(crate) fn new(proofs: impl Iterator<Item = Proof>) -> Self {
        let proofs: Vec<Proof> = proofs.collect();
        let mut order: Vec<usize> = (0..proofs.len()).collect();
        order.sort_by_key(|&i| proofs[i].job);
        Proofs { order, proofs }
    }

    /// The batch, each proof with what else belongs to it.
    pub(crate) fn batch(&self, rest: impl Fn(usize, &mut Map<String, serde_json::Value>)) -> Result<Value> {
        let objects: Vec<Map<String, serde_json::Value>> = self
            .order
            .iter()
            .map(|&i| {
                let proof = &self.proofs[i];
                let mut object = Map::new();
                object.insert("job".into(), json!(proof.job.0));
                object.insert("attempt".into(), json!(proof.attempt));
                object.insert("token".into(), json!(proof.token.as_uuid()));
                rest(i, &mut object);
                object
            })
            .collect();
        list(&objects)
    }

    /// The answers, back in the order of the request.
    pub(crate) fn answers<T>(&self, rows: &[Row], read: impl Fn(&Row) -> Result<T>) -> Result<Vec<T>> {
        let mut answers: Vec<Option<T>> = self.order.iter().map(|_| None).collect();
        for row in rows {
            if let Some(&i) = self.order.get(rows::place(row)?) {
                answers[i] = Some(read(row)?);
            }
        }
        let all: Option<Vec<T>> = answers.into_iter().collect();
        all.ok_or_else(|| Error::new(ErrorKind::Internal, "the routine left a job without an answer"))
    }
}

/// The one call of a single job.
pub(crate) fn enqueue_call(job: &NewJob) -> Call {
    let mut params: Vec<Value> =
        vec![job.queue.as_str().into(), job.kind.as_str().into(), job.payload.as_str().into()];
    params.extend(job.priority.map(Value::from));
    params.extend([
        job.run_at_rounded().map(rows::micros).into(),
        job.max_attempts.into(),
        job.max_run.map(ms).into(),
        job.unique_key.as_deref().into(),
        job.idempotency_key.as_deref().into(),
    ]);
    Call { sql: enqueue_sql(job).into(), params }
}

/// The text of that call.
pub(crate) fn enqueue_sql(job: &NewJob) -> &'static str {
    match job.priority {
        None => "CALL turno.enqueue(?, ?, ?, ?, ?, ?, ?, ?)",
        Some(_) => "CALL turno.enqueue_prioritized(?, ?, ?, ?, ?, ?, ?, ?, ?)",
    }
}

/// Calls of enqueue_many for these jobs, and for each of them the places of its rows in the request.
pub(crate) fn enqueue_calls(jobs: &[NewJob]) -> (Vec<Call>, Vec<Vec<usize>>) {
    let prioritized = jobs.iter().any(|job| job.priority.is_some());
    let sql =
        if prioritized { "CALL turno.enqueue_many_prioritized(?)" } else { "CALL turno.enqueue_many(?)" };
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    let texts: Vec<String> = jobs.iter().map(job_json).collect();
    let bytes: usize = texts.iter().map(String::len).sum();
    if jobs.len() > ENQUEUE_ROWS_MAX || bytes > ENQUEUE_BYTES_MAX {
        // A routine takes the keys of its call in order; several calls must do so, too.
        order.sort_by_key(|&i| (&jobs[i].queue, &jobs[i].idempotency_key, &jobs[i].unique_key));
    }
    let (mut calls, mut places) = (Vec::new(), Vec::new());
    let (mut text, mut of_call) = (String::new(), Vec::new());
    for i in order {
        let full = of_call.len() == ENQUEUE_ROWS_MAX || text.len() + texts[i].len() > ENQUEUE_BYTES_MAX;
        if full && !of_call.is_empty() {
            calls.push(Call { sql: sql.into(), params: vec![format!("[{text}]").into()] });
            places.push(std::mem::take(&mut of_call));
            text.clear();
        }
        if !of_call.is_empty() {
            text.push(',');
        }
        text += &texts[i];
        of_call.push(i);
    }
    calls.push(Call { sql: sql.into(), params: vec![format!("[{text}]").into()] });
    places.push(of_call);
    (calls, places)
}

fn job_json(job: &NewJob) -> String {
    let mut object = Map::new();
    let mut set = |name: &str, value: Option<serde_json::Value>| {
        if let Some(value) = value {
            object.insert(name.into(), value);
        }
    };
    set("queue", Some(json!(job.queue)));
    set("kind", Some(json!(job.kind)));
    set("run_at", job.run_at_rounded().map(|at| json!(rows::micros(at))));
    set("priority", job.priority.map(|n| json!(n)));
    set("max_attempts", job.max_attempts.map(|n| json!(n)));
    set("max_run_ms", job.max_run.map(|duration| json!(ms(duration))));
    set("unique_key", job.unique_key.as_ref().map(|key| json!(key)));
    set("idempotency_key", job.idempotency_key.as_ref().map(|key| json!(key)));
    set("payload", Some(json!(job.payload)));
    serde_json::Value::Object(object).to_string()
}
