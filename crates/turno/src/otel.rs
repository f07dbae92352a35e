//! Traces, by the API of OpenTelemetry: an enqueue takes the current span with it, and a worker opens a span for each attempt.
//! It refuses to choose an exporter: the application sets the global tracer provider, and without one nothing is recorded.
//!
//! An attempt's span is a **child** of the span that enqueued the job, and not merely linked to it: one job is one message, so the
//! request, every attempt and what they enqueue in turn are one trace. Retries are siblings. The names are those of OpenTelemetry's
//! conventions for messaging (`process {queue}`, kind consumer, `messaging.*`); what they lack is under `turno.*`. While the handler
//! runs its span is the current context, so a [`Queue`](crate::Queue) inside it takes it along.
//!
//! The operations of a backend, also those inside your own transaction, take what the job says:
//! `NewJob::new(..).traceparent(..)` with [`current_traceparent`], or a job made by [`Queue::job`](crate::Queue::job).

use std::borrow::Cow;
use std::sync::Arc;

use opentelemetry::context::FutureExt;
use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer,
};
use opentelemetry::{Context, KeyValue, global};
use turno_contract::{NewJob, cut_error, kept_traceparent};

use crate::context::{Attempt, CancelCause};
use crate::hook::JobResult;

/// The current span as the header `traceparent`; `None` if there is none.
pub fn current_traceparent() -> Option<String> {
    let context = Context::current();
    let span = context.span();
    let span = span.span_context();
    let flags = (span.trace_flags() & TraceFlags::SAMPLED).to_u8();
    span.is_valid().then(|| format!("00-{}-{}-{flags:02x}", span.trace_id(), span.span_id()))
}

/// The jobs with the current span in those that name none.
pub(crate) fn stamped(jobs: &[NewJob]) -> Cow<'_, [NewJob]> {
    if jobs.iter().all(|job| job.traceparent.is_some()) {
        return Cow::Borrowed(jobs);
    }
    let Some(current) = current_traceparent() else { return Cow::Borrowed(jobs) };
    let mut jobs = jobs.to_vec();
    for job in &mut jobs {
        job.traceparent.get_or_insert_with(|| current.clone());
    }
    Cow::Owned(jobs)
}

/// Runs an attempt inside its span.
pub(crate) async fn traced(attempt: Arc<Attempt>, run: impl Future<Output = JobResult>) -> JobResult {
    let span = Open::new(attempt);
    let run = run.with_context(span.context.clone());
    let mut run = std::pin::pin!(run);
    let mut noted = None;
    let result = tokio::select! {
        biased;
        result = &mut run => result,
        () = span.attempt.cancelled() => {
            noted = span.asked_to_stop(None);
            run.await
        }
    };
    // A stronger cause may have come since.
    span.asked_to_stop(noted);
    span.ended(result)
}

/// A span that ends with this value, whatever becomes of the task.
struct Open {
    context: Context,
    attempt: Arc<Attempt>,
    has_ended: bool,
}

impl Open {
    fn new(attempt: Arc<Attempt>) -> Self {
        let job = &attempt.job;
        let remote = job.traceparent.as_deref().and_then(span_context);
        let parent =
            remote.map_or_else(Context::new, |remote| Context::new().with_remote_span_context(remote));
        let tracer = global::tracer("turno");
        let span = tracer
            .span_builder(format!("process {}", job.queue))
            .with_kind(SpanKind::Consumer)
            .with_attributes([
                KeyValue::new("messaging.system", "turno"),
                KeyValue::new("messaging.operation.type", "process"),
                KeyValue::new("messaging.operation.name", "process"),
                KeyValue::new("messaging.destination.name", job.queue.clone()),
                KeyValue::new("messaging.message.id", job.proof.job.to_string()),
                KeyValue::new("messaging.client.id", attempt.worker.to_string()),
                KeyValue::new("turno.job.kind", job.kind.clone()),
                KeyValue::new("turno.job.attempt", job.proof.attempt),
                KeyValue::new("turno.job.operation_id", job.operation_id.to_string()),
            ])
            .start_with_context(&tracer, &parent);
        Open { context: parent.with_span(span), attempt, has_ended: false }
    }

    /// Notes why the handler is asked to stop, unless that is what was noted already.
    fn asked_to_stop(&self, noted: Option<CancelCause>) -> Option<CancelCause> {
        let cause = self.attempt.cause().filter(|cause| noted != Some(*cause))?;
        let name = if cause == CancelCause::LeaseLost { "lease lost" } else { "asked to stop" };
        self.context.span().add_event(name, vec![KeyValue::new("turno.cause", cause.to_string())]);
        Some(cause)
    }

    fn ended(mut self, result: JobResult) -> JobResult {
        self.has_ended = true;
        let span = self.context.span();
        let outcome = match &result {
            Ok(_) => "succeeded",
            Err(error) if error.is_charged() => {
                self.failed("job_error", error.text());
                "failed"
            }
            Err(error) => {
                let text = cut_error(error.text()).0;
                span.add_event("given back", vec![KeyValue::new("turno.reason", text)]);
                "released"
            }
        };
        span.set_attribute(KeyValue::new("turno.job.outcome", outcome));
        span.end();
        result
    }

    fn failed(&self, kind: &'static str, text: &str) {
        let span = self.context.span();
        let text = cut_error(text).0.to_string();
        let message = KeyValue::new("exception.message", text.clone());
        span.add_event("exception", vec![KeyValue::new("exception.type", kind), message]);
        span.set_attribute(KeyValue::new("error.type", kind));
        span.set_status(Status::error(text));
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let why = if std::thread::panicking() { "the handler panicked" } else { "the handler was aborted" };
        self.failed(if std::thread::panicking() { "panic" } else { "aborted" }, why);
        self.context.span().set_attribute(KeyValue::new("turno.job.outcome", "failed"));
        self.context.span().end();
    }
}

/// What a header `traceparent` says; `None` if it is none. Text that came by plain SQL may be anything.
pub fn span_context(header: &str) -> Option<SpanContext> {
    let header = kept_traceparent(header)?;
    let trace = TraceId::from_hex(&header[3..35]).ok()?;
    let span = SpanId::from_hex(&header[36..52]).ok()?;
    let flags = TraceFlags::new(u8::from_str_radix(&header[53..], 16).ok()?) & TraceFlags::SAMPLED;
    Some(SpanContext::new(trace, span, flags, true, TraceState::default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_and_written_as_it_was() {
        let header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = Context::new().with_remote_span_context(span_context(header).expect("a span"));
        assert_eq!(current_traceparent(), None);
        let _current = context.attach();
        assert_eq!(current_traceparent().as_deref(), Some(header));
        let jobs = [NewJob::new("q", "k", "1"), NewJob::new("q", "k", "1").traceparent("mine")];
        let stamped = stamped(&jobs);
        assert_eq!(
            (stamped[0].traceparent.as_deref(), stamped[1].traceparent.as_deref()),
            (Some(header), Some("mine"))
        );
        assert!(span_context("x").is_none());
    }
}
