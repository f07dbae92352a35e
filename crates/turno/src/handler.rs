//! From a typed closure to one future per attempt: checking and decoding the payload, the hooks around it, the span,
//! and the result as JSON text. Everything here runs in the handler's own task, so that neither a huge payload nor a
//! panic in anybody's code can hold up the control loop.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::Instrument;
use turno_contract::{ClaimedJob, check_json};

use crate::context::Attempt;
use crate::hook::{Hook, JobResult, Next};
use crate::{Context, JobError};

/// A handler without its types.
pub(crate) type Runner = Arc<dyn Fn(Arc<Attempt>) -> BoxFuture<'static, JobResult> + Send + Sync>;

/// All the handlers of a worker.
#[derive(Default)]
pub(crate) struct Handlers {
    pub(crate) by_kind: HashMap<String, Runner>,
    pub(crate) catch_all: Option<Runner>,
    pub(crate) hooks: Vec<Arc<dyn Hook>>,
    pub(crate) payload_bytes_max: usize,
}

impl Handlers {
    /// The future that runs this attempt; `None` if nothing knows its kind.
    pub(crate) fn run(&self, attempt: &Arc<Attempt>) -> Option<BoxFuture<'static, JobResult>> {
        let job = &attempt.job;
        let runner = Arc::clone(self.by_kind.get(&job.kind).or(self.catch_all.as_ref())?);
        let span = tracing::info_span!(
            "job",
            queue = %job.queue,
            kind = %job.kind,
            job = %job.proof.job,
            attempt = job.proof.attempt,
            operation_id = %job.operation_id,
        );
        #[cfg(feature = "otel")]
        let traced = Arc::clone(attempt);
        let (attempt, bytes_max) = (Arc::clone(attempt), self.payload_bytes_max);
        let hooks = self.hooks.clone();
        let future = async move {
            if let Err(error) = check_json("the payload", &attempt.job.payload, bytes_max) {
                attempt.counters.undecodable.add(1);
                return Err(JobError::new(error.message()).never());
            }
            let context = Context::new(Arc::clone(&attempt), Arc::new(()));
            let innermost = {
                let attempt = Arc::clone(&attempt);
                async move { runner(attempt).await }.boxed()
            };
            let chain = hooks.into_iter().rev().fold(innermost, |future, hook| {
                let context = context.clone();
                async move { hook.around(&context, Next { future }).await }.boxed()
            });
            Ok(bounded_result(chain.await?, bytes_max, &attempt))
        };
        #[cfg(feature = "otel")]
        let future = crate::otel::traced(traced, future);
        Some(future.instrument(span).boxed())
    }
}

/// Makes a runner of a handler with typed arguments.
pub(crate) fn typed<S, T, R, F, Fut>(state: Arc<S>, handler: F) -> Runner
where
    S: Send + Sync + 'static,
    T: DeserializeOwned + Send + 'static,
    R: Serialize,
    F: Fn(Context<S>, T) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, JobError>> + Send + 'static,
{
    let handler = Arc::new(handler);
    Arc::new(move |attempt: Arc<Attempt>| {
        let (handler, state) = (Arc::clone(&handler), Arc::clone(&state));
        async move {
            let args: T = serde_json::from_str(&attempt.job.payload).map_err(|error| {
                attempt.counters.undecodable.add(1);
                JobError::new(format!("the payload does not fit the handler of its kind: {error}"))
            })?;
            let result = handler(Context::new(Arc::clone(&attempt), state), args).await?;
            Ok(match serde_json::to_string(&result) {
                Ok(text) if text == "null" => None,
                Ok(text) => Some(text),
                // The work is done: a result that cannot be written is no reason to do it again.
                Err(error) => {
                    Some(note(&attempt, "the result cannot be written as JSON", &error.to_string()))
                }
            })
        }
        .boxed()
    })
}

/// Makes a runner of a handler that takes the job as it is.
pub(crate) fn raw<S, F, Fut>(state: Arc<S>, handler: F) -> Runner
where
    S: Send + Sync + 'static,
    F: Fn(Context<S>, ClaimedJob) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = JobResult> + Send + 'static,
{
    let handler = Arc::new(handler);
    Arc::new(move |attempt: Arc<Attempt>| {
        let (handler, state) = (Arc::clone(&handler), Arc::clone(&state));
        async move {
            let job = attempt.job.clone();
            handler(Context::new(attempt, state), job).await
        }
        .boxed()
    })
}

/// A result beyond the limits is replaced by a note: the job did succeed.
fn bounded_result(result: Option<String>, bytes_max: usize, attempt: &Attempt) -> Option<String> {
    let text = result?;
    match check_json("the result", &text, bytes_max) {
        Ok(()) => Some(text),
        Err(error) => Some(note(attempt, error.message(), &format!("{} bytes", text.len()))),
    }
}

fn note(attempt: &Attempt, why: &str, detail: &str) -> String {
    attempt.counters.results_replaced.add(1);
    tracing::warn!(job = %attempt.job.proof.job, why, detail, "the result is replaced by a note");
    serde_json::json!({ "turno": "the result was not kept", "why": why, "detail": detail }).to_string()
}
