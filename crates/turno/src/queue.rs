//! The typed client of one queue, for producers. It refuses to hide a lost answer: an enqueue whose outcome is
//! unknown is repeated only if its idempotency keys make that harmless (rule E6).

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use turno_contract::{BoxedBackend, Enqueued, Error, NewJob, Result};

use crate::RetryPolicy;

/// The client of one queue. Cheap to clone.
#[derive(Clone)]
pub struct Queue {
    backend: BoxedBackend,
    name: Arc<str>,
    patience: Duration,
}

impl Queue {
    /// The queue of this name. A queue needs no creation; the name is checked by the first enqueue.
    pub fn new(backend: BoxedBackend, name: impl Into<String>) -> Self {
        Queue { backend, name: Arc::from(name.into()), patience: Duration::from_secs(10) }
    }

    /// For how long a call is repeated while the database is busy or away; 10 s by default.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The backend behind it.
    pub fn backend(&self) -> &BoxedBackend {
        &self.backend
    }

    /// A job for this queue, with its payload as JSON text; it is not enqueued yet.
    /// Errors with `InvalidArgument` if the payload cannot be written as JSON.
    pub fn job<T: Serialize + ?Sized>(&self, kind: impl Into<String>, payload: &T) -> Result<NewJob> {
        let text = serde_json::to_string(payload).map_err(|error| {
            Error::invalid(format!("the payload cannot be written as JSON: {error}")).with_source(error)
        })?;
        let job = NewJob::new(&*self.name, kind, text);
        #[cfg(feature = "otel")]
        let job = NewJob { traceparent: crate::otel::current_traceparent(), ..job };
        Ok(job)
    }

    /// Enqueues one job that is due now.
    pub async fn enqueue<T: Serialize + ?Sized>(&self, kind: &str, payload: &T) -> Result<Enqueued> {
        self.enqueue_job(self.job(kind, payload)?).await
    }

    /// Enqueues one job with settings of its own, as [`Queue::job`] makes them.
    /// Errors with `InvalidArgument` if the job names another queue.
    pub async fn enqueue_job(&self, job: NewJob) -> Result<Enqueued> {
        let answers = self.enqueue_many(std::slice::from_ref(&job)).await?;
        answers.first().copied().ok_or_else(|| {
            Error::new(turno_contract::ErrorKind::Internal, "the backend answered nothing to one enqueue")
        })
    }

    /// Enqueues all the jobs or none, in one transaction, and answers in their order. With the feature `otel` those that name
    /// no trace belong to the current one (rule E12).
    ///
    /// Transient errors are repeated for [`Queue::patience`]. An error with an unknown outcome is repeated only if
    /// every job has an idempotency key; otherwise it goes up, and
    /// [`outcome_is_unknown`](Error::outcome_is_unknown) tells.
    pub async fn enqueue_many(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        if let Some(job) = jobs.iter().find(|job| job.queue != *self.name) {
            return Err(Error::invalid(format!(
                "a job for queue {:?} came to queue {:?}",
                job.queue, self.name
            )));
        }
        #[cfg(feature = "otel")]
        let jobs = &*crate::otel::stamped(jobs);
        let repeatable = jobs.iter().all(|job| job.idempotency_key.is_some());
        let backoff = RetryPolicy::exponential(Duration::from_millis(20), Duration::from_secs(1));
        let (began, mut tries) = (Instant::now(), 0);
        // Once an answer was lost, it stays unknown whether that call was carried out, whatever later calls say.
        let mut lost_answer = false;
        loop {
            let error = match self.backend.enqueue(jobs).await {
                Ok(answers) => return Ok(answers),
                Err(error) => error,
            };
            lost_answer |= error.outcome_is_unknown();
            tries += 1;
            let may_repeat = error.is_transient() && (repeatable || !lost_answer);
            let pause = backoff.delay(tries);
            if !may_repeat || began.elapsed() + pause > self.patience {
                return Err(if lost_answer { error.with_outcome_unknown() } else { error });
            }
            tracing::debug!(queue = %self.name, %error, tries, "enqueue is repeated");
            tokio::time::sleep(pause).await;
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("name", &self.name).field("engine", &self.backend.engine()).finish()
    }
}
