//! The exporter and its HTTP client. The client is ureq, which blocks: the SDK sends from a thread of its own, where the usual
//! clients would need a runtime and a second TLS. It refuses to repeat a warning while nothing changes.

use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;

/// How long one request may take, unless OTEL_EXPORTER_OTLP_TIMEOUT says otherwise.
const SEND_MAX: Duration = Duration::from_secs(10);
/// Most bytes of an answer that are read.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// Where the path of traces lies below an endpoint.
const TRACES_PATH: &str = "/v1/traces";

/// What sends traces to this endpoint, or to the one that the environment names; `None` if neither is there or the
/// environment says that there shall be none. Errors say what is wrong with an option or a variable.
pub(super) fn provider(endpoint: Option<&str>) -> Result<Option<SdkTracerProvider>, String> {
    let own = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"].map(variable);
    let off = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
        || variable("OTEL_TRACES_EXPORTER").is_some_and(|value| value != "otlp");
    if endpoint.is_none() && (off || own.iter().all(Option::is_none)) {
        return Ok(None);
    }
    for name in ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"] {
        if let Some(protocol) = variable(name).filter(|protocol| protocol != "http/protobuf") {
            return Err(format!(
                "{name}: {protocol:?} is not spoken here; http/protobuf is, usually at port 4318"
            ));
        }
    }
    let mut exporter = SpanExporter::builder().with_http().with_http_client(Client::new(timeout()?));
    if let Some(endpoint) = endpoint {
        if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
            return Err(format!(
                "--otlp-endpoint: {endpoint:?} begins neither with http:// nor with https://"
            ));
        }
        exporter = exporter.with_endpoint(format!("{}{TRACES_PATH}", endpoint.trim_end_matches('/')));
    }
    let exporter = exporter.build().map_err(|error| format!("traces: {error}"))?;
    let mut resource = Resource::builder();
    if variable("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name("turno");
    }
    let provider = SdkTracerProvider::builder().with_resource(resource.build()).with_batch_exporter(exporter);
    Ok(Some(provider.build()))
}

/// An empty variable is as good as none.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn timeout() -> Result<Duration, String> {
    for name in ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"] {
        if let Some(text) = variable(name) {
            let ms = text.parse().map_err(|_| format!("{name}: {text:?} is no number of milliseconds"))?;
            return Ok(Duration::from_millis(ms));
        }
    }
    Ok(SEND_MAX)
}

#[derive(Debug)]
struct Client {
    agent: ureq::Agent,
    fails: AtomicBool,
}

impl Client {
    fn new(timeout: Duration) -> Self {
        let config = ureq::Agent::config_builder().timeout_global(Some(timeout)).http_status_as_error(false);
        Client { agent: config.build().into(), fails: AtomicBool::new(false) }
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        let (head, body) = self.agent.run(request.map(|body| body.to_vec()))?.into_parts();
        let mut body = body;
        let body = body.with_config().limit(ANSWER_BYTES_MAX).read_to_vec()?;
        Ok(Response::from_parts(head, Bytes::from(body)))
    }

    fn note(&self, failure: Option<String>) {
        match (failure, self.fails.load(Ordering::Relaxed)) {
            (Some(why), false) => tracing::warn!(%why, "the collector takes no traces; they are dropped"),
            (None, true) => tracing::warn!("the collector takes traces again"),
            (Some(_), true) | (None, false) => return,
        }
        self.fails.fetch_xor(true, Ordering::Relaxed);
    }
}

#[async_trait::async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.send(request);
        self.note(match &answer {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("it answers {}", answer.status())),
            Err(error) => Some(error.to_string()),
        });
        Ok(answer?)
    }
}
