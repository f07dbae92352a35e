//! A span for each change over the HTTP API: enqueue, claim, settle, operate. It refuses to trace what only looks, which pages and
//! monitoring do all the time.

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use opentelemetry::trace::{FutureExt, SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue, global};

/// Answers inside a span, whose parent is the one that the request's header `traceparent` names. A request that is given up ends it, too.
pub async fn traced(request: Request, next: Next) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        return next.run(request).await;
    }
    let header = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
    let remote = header.and_then(turno::otel::span_context);
    let parent = remote.map_or_else(Context::new, |remote| Context::new().with_remote_span_context(remote));
    let method = request.method().to_string();
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str).to_owned();
    let tracer = global::tracer("turno");
    let span = tracer
        .span_builder(format!("{method} {route}"))
        .with_kind(SpanKind::Server)
        .with_attributes([
            KeyValue::new("http.request.method", method),
            KeyValue::new("http.route", route),
            KeyValue::new("url.path", request.uri().path().to_owned()),
        ])
        .start_with_context(&tracer, &parent);
    let context = parent.with_span(span);
    let response = next.run(request).with_context(context.clone()).await;
    let status = response.status();
    context.span().set_attribute(KeyValue::new("http.response.status_code", i64::from(status.as_u16())));
    if status.is_server_error() {
        context.span().set_attribute(KeyValue::new("error.type", status.as_u16().to_string()));
        context.span().set_status(Status::error(""));
    }
    context.span().end();
    response
}
