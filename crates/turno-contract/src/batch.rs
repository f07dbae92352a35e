//! What every backend does with the rows of one call, whatever its driver: proofs in one order, answers back in that of the
//! request, times in whole milliseconds, jobs and proofs as JSON for the routines that take it. It refuses to know what
//! a row of an answer is.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;

use crate::{Error, ErrorKind, NewJob, Proof, Result};

/// Rows of one batch of jobs.
const ENQUEUE_ROWS_MAX: usize = 1000;
/// Bytes of one such batch, unless a single row is larger: far below the smallest usual limit of a server, also where it holds
/// them twice as wide.
const ENQUEUE_BYTES_MAX: usize = 4 << 20;

/// Whole milliseconds, rounded up: nothing may become shorter than it was asked for (rule T3).
pub fn whole_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// The proofs of one call in id order, so that two calls lock in one order.
#[derive(Debug)]
pub struct Proofs {
    order: Vec<usize>,
    proofs: Vec<Proof>,
}

impl Proofs {
    /// Takes them in the order of the request.
    pub fn new(proofs: impl Iterator<Item = Proof>) -> Self {
        let proofs: Vec<Proof> = proofs.collect();
        let mut order: Vec<usize> = (0..proofs.len()).collect();
        order.sort_by_key(|&i| proofs[i].job);
        Proofs { order, proofs }
    }

    /// A column of the call: of each proof, in the order of the call, with its place in the request.
    pub fn column<T>(&self, value: impl Fn(usize, &Proof) -> T) -> Vec<T> {
        self.order.iter().map(|&i| value(i, &self.proofs[i])).collect()
    }

    /// The call as a JSON array: each proof with what else belongs to it, which is told its place in the request.
    ///
    /// # Errors
    /// `Internal` for what JSON cannot hold.
    pub fn json(&self, rest: impl Fn(usize, &mut Map<String, Value>)) -> Result<String> {
        let objects = self.column(|i, proof| {
            let mut object = Map::new();
            object.insert("job".into(), json!(proof.job.0));
            object.insert("attempt".into(), json!(proof.attempt));
            object.insert("token".into(), json!(proof.token.as_uuid()));
            rest(i, &mut object);
            object
        });
        json_list(&objects)
    }

    /// The answers, back in the order of the request. `place` tells of a row which proof of the call it answers, from 0.
    ///
    /// # Errors
    /// What `place` and `read` answer; `Internal` if a proof has no answer.
    pub fn answers<R, T>(
        &self,
        rows: &[R],
        place: impl Fn(&R) -> Result<usize>,
        read: impl Fn(&R) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut answers: Vec<Option<T>> = self.order.iter().map(|_| None).collect();
        for row in rows {
            if let Some(&i) = self.order.get(place(row)?) {
                answers[i] = Some(read(row)?);
            }
        }
        let all: Option<Vec<T>> = answers.into_iter().collect();
        all.ok_or_else(|| Error::new(ErrorKind::Internal, "the routine left a job without an answer"))
    }
}

/// A list as a JSON array.
///
/// # Errors
/// `Internal` for what JSON cannot hold.
pub fn json_list<T: Serialize + ?Sized>(values: &T) -> Result<String> {
    serde_json::to_string(values)
        .map_err(|error| Error::new(ErrorKind::Internal, "a list that JSON cannot hold").with_source(error))
}

/// Jobs of one call.
#[derive(Debug)]
pub struct JobBatch {
    /// The jobs as a JSON array. Nothing but what JSON must escape is escaped.
    pub json: String,
    /// The place in the request of each.
    pub places: Vec<usize>,
}

/// The jobs as batches that a server takes in one call; `instant` says how it reads a due time.
pub fn job_batches(jobs: &[NewJob], instant: impl Fn(OffsetDateTime) -> Value) -> Vec<JobBatch> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    let texts: Vec<String> = jobs.iter().map(|job| job_json(job, &instant)).collect();
    let bytes: usize = texts.iter().map(String::len).sum();
    if jobs.len() > ENQUEUE_ROWS_MAX || bytes > ENQUEUE_BYTES_MAX {
        // A routine takes the keys of its call in order; several calls must do so, too.
        order.sort_by_key(|&i| (&jobs[i].queue, &jobs[i].idempotency_key, &jobs[i].unique_key));
    }
    let mut batches = Vec::new();
    let (mut text, mut places) = (String::new(), Vec::new());
    for i in order {
        let full = places.len() == ENQUEUE_ROWS_MAX || text.len() + texts[i].len() > ENQUEUE_BYTES_MAX;
        if full && !places.is_empty() {
            batches.push(JobBatch { json: format!("[{text}]"), places: std::mem::take(&mut places) });
            text.clear();
        }
        if !places.is_empty() {
            text.push(',');
        }
        text += &texts[i];
        places.push(i);
    }
    batches.push(JobBatch { json: format!("[{text}]"), places });
    batches
}

fn job_json(job: &NewJob, instant: &impl Fn(OffsetDateTime) -> Value) -> String {
    let mut object = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            object.insert(name.into(), value);
        }
    };
    set("queue", Some(json!(job.queue)));
    set("kind", Some(json!(job.kind)));
    set("run_at", job.run_at_rounded().map(instant));
    set("priority", job.priority.map(|n| json!(n)));
    set("max_attempts", job.max_attempts.map(|n| json!(n)));
    set("max_run_ms", job.max_run.map(|duration| json!(whole_ms(duration))));
    set("unique_key", job.unique_key.as_ref().map(|key| json!(key)));
    set("idempotency_key", job.idempotency_key.as_ref().map(|key| json!(key)));
    set("traceparent", job.traceparent_kept().map(|text| json!(text)));
    set("payload", Some(json!(job.payload)));
    Value::Object(object).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_requests_are_split_and_every_place_is_there_once() {
        let large = format!("\"{}\"", "x".repeat(3 << 20));
        let jobs: Vec<NewJob> = (0..2500)
            .map(|i| NewJob::new("q", "k", if i % 1000 == 0 { large.as_str() } else { "1" }))
            .collect();
        let batches = job_batches(&jobs, |at| json!(at.unix_timestamp()));
        assert!(batches.iter().all(|batch| batch.places.len() <= ENQUEUE_ROWS_MAX));
        assert!(batches.iter().all(|batch| batch.json.len() <= ENQUEUE_BYTES_MAX + (4 << 20)));
        let mut places: Vec<usize> = batches.iter().flat_map(|batch| batch.places.clone()).collect();
        places.sort_unstable();
        assert_eq!(places, (0..2500).collect::<Vec<_>>());
    }
}
