//! Traces, with the real binary and a collector that decodes what arrives. Feature `otel`.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Answer, Running, Turno, lines, signal, until};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind, status::StatusCode};
use prost::Message;
use rustix::process::Signal;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

/// A collector of its own at a free port.
struct Collector {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let taken = Arc::clone(&taken);
                // A connection that breaks off is the sender's to tell.
                std::thread::spawn(move || while take(stream.as_ref().unwrap(), &taken).is_some() {});
            }
        });
        Collector { address, requests }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn spans(&self) -> Vec<Span> {
        let requests = self.requests.lock().unwrap();
        let scopes =
            requests.iter().flat_map(|request| &request.resource_spans).flat_map(|spans| &spans.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }
}

/// Takes one request; `None` at the end of the connection.
fn take(stream: &TcpStream, taken: &Mutex<Vec<ExportTraceServiceRequest>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    while reader.read_line(&mut head).ok()? > 0 && !head.ends_with("\r\n\r\n") {}
    for line in head.to_lowercase().lines() {
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    if head.is_empty() {
        return None;
    }
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    assert!(head.to_lowercase().contains("content-type: application/x-protobuf"), "{head}");
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    taken.lock().unwrap().push(ExportTraceServiceRequest::decode(&*body).unwrap());
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
    let mut writer = stream;
    writer.write_all(answer.as_bytes()).ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attribute(attributes: &[KeyValue], name: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == name);
    match found.and_then(|attribute| attribute.value.as_ref()) {
        Some(AnyValue { value: Some(Value::StringValue(text)) }) => text.clone(),
        Some(AnyValue { value: Some(Value::IntValue(number)) }) => number.to_string(),
        other => format!("{other:?}"),
    }
}

fn enqueue(turno: &Turno, traceparent: Option<&str>, args: &[&str]) -> String {
    let mut command = turno.command();
    command.args(["enqueue", "--json", "--queue", "q", "--kind", "k"]).args(args);
    command.envs(traceparent.map(|traceparent| ("TRACEPARENT", traceparent)));
    let answer = common::finish(command, b"");
    assert_eq!(answer.status, Some(0), "{answer:?}");
    answer.documents()[0]["id"].as_str().unwrap().to_owned()
}

fn work(turno: &Turno, endpoint: &str, command: &str) -> Running {
    let kind = format!("k={command}");
    turno.start(&[
        "work",
        "--json",
        "--queue",
        "q",
        "--lease",
        "2s",
        "--otlp-endpoint",
        endpoint,
        "--kind",
        &kind,
    ])
}

fn stop(work: Running) -> Answer {
    signal(work.id(), Signal::TERM);
    let answer = work.answer();
    assert_eq!(answer.status, Some(143), "{answer:?}");
    answer
}

/// Rule E12: from the enqueue's process into the span of every attempt, and on into the command and what it enqueues.
#[test]
fn one_trace_goes_from_the_enqueue_through_a_retry_into_the_command() {
    let (turno, collector) = (Turno::new(), Collector::start());
    turno.json(&["queue", "set", "q", "--retry-base", "1ms"]);
    let id = enqueue(&turno, Some(&format!("00-{TRACE}-{SPAN}-01")), &["--max-attempts", "3"]);
    let seen = turno.path("seen");
    let command = format!(
        "echo $TRACEPARENT >> {seen}; if [ $TURNO_ATTEMPT = 1 ]; then echo broken >&2; exit 3; fi; \
         {turno} enqueue --queue later --kind k",
        seen = seen.display(),
        turno = env!("CARGO_BIN_EXE_turno")
    );
    let worker = work(&turno, &collector.url(), &command);
    until("it succeeds", || turno.state(&id) == "succeeded");
    stop(worker);

    let spans = collector.spans();
    assert_eq!(spans.len(), 2, "{spans:?}");
    let told = lines(&seen);
    for (n, span) in spans.iter().enumerate() {
        assert_eq!((hex(&span.trace_id).as_str(), hex(&span.parent_span_id).as_str()), (TRACE, SPAN));
        assert_eq!((span.name.as_str(), span.kind), ("process q", SpanKind::Consumer as i32));
        assert_eq!(told[n], format!("00-{TRACE}-{}-01", hex(&span.span_id)), "what the command was told");
        let value = |name| attribute(&span.attributes, name);
        assert_eq!(value("messaging.system"), "turno");
        assert_eq!(value("messaging.destination.name"), "q");
        assert_eq!(value("messaging.message.id"), id);
        assert_eq!((value("turno.job.kind"), value("turno.job.attempt")), ("k".into(), (n + 1).to_string()));
        assert_eq!(value("turno.job.outcome"), ["failed", "succeeded"][n]);
    }
    let failed = spans[0].status.as_ref().unwrap();
    assert_eq!((failed.code(), failed.message.as_str()), (StatusCode::Error, "exit status 3: broken"));
    assert_eq!(spans[0].events[0].name, "exception");
    assert_eq!(attribute(&spans[0].events[0].attributes, "exception.message"), "exit status 3: broken");
    assert_eq!((spans[1].status.as_ref().map_or(0, |status| status.code), spans[1].events.len()), (0, 0));

    let follow_up = turno.json(&["job", "list", "--queue", "later", "--state", "ready"]);
    let id = follow_up[0]["id"].as_str().unwrap();
    assert_eq!(turno.json(&["job", "show", id])[0]["traceparent"].as_str(), Some(told[1].as_str()));
    let resource = collector.requests.lock().unwrap()[0].resource_spans[0].resource.clone().unwrap();
    assert_eq!(attribute(&resource.attributes, "service.name"), "turno");
}

/// A job that belongs to no trace begins one; a cancelled attempt says why it stopped.
#[test]
fn a_job_without_a_trace_begins_one_and_a_cancelled_attempt_says_so() {
    let (turno, collector) = (Turno::new(), Collector::start());
    let id = enqueue(&turno, None, &[]);
    let started = turno.path("started");
    let worker = work(&turno, &collector.url(), &format!("touch {}; exec sleep 1000", started.display()));
    until("it is at work", || started.exists());
    turno.json(&["job", "cancel", &id]);
    until("it is cancelled", || turno.state(&id) == "cancelled");
    stop(worker);
    let spans = collector.spans();
    assert_eq!(spans.len(), 1, "{spans:?}");
    assert!(spans[0].parent_span_id.is_empty() && spans[0].trace_id.iter().any(|byte| *byte != 0));
    assert_eq!(spans[0].events[0].name, "asked to stop");
    assert_eq!(attribute(&spans[0].events[0].attributes, "turno.cause"), "its cancellation was asked for");
}

/// A collector that is down, or that takes connections and never answers, delays no job, and the end by two seconds.
#[test]
fn a_collector_that_is_down_or_hangs_holds_up_nothing() {
    let hanging = TcpListener::bind("127.0.0.1:0").unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (address, slow) in [(hanging.local_addr().unwrap(), true), (free, false)] {
        let turno = Turno::new();
        let worker = work(&turno, &format!("http://{address}"), "true");
        for _ in 0..3 {
            let id = enqueue(&turno, None, &[]);
            until("it succeeds", || turno.state(&id) == "succeeded");
        }
        let began = Instant::now();
        let answer = stop(worker);
        let took = began.elapsed();
        assert_eq!(answer.documents()[0]["metrics"]["succeeded"].as_u64(), Some(3), "{answer:?}");
        assert_eq!(answer.err.contains("not taken within 2s"), slow, "{answer:?}");
        // Two seconds of its own and room for a busy machine; the exporter's own limit is ten.
        assert!(took < Duration::from_secs(8), "the end took {took:?}");
    }
}

/// Rule E12: the server's span stands between the client's and the attempt's; what only looks has none.
#[test]
fn a_change_over_the_api_has_a_span_that_its_jobs_take_along() {
    let (turno, collector) = (Turno::new(), Collector::start());
    let mut server =
        turno.start(&["serve", "--json", "--listen", "127.0.0.1:0", "--otlp-endpoint", &collector.url()]);
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let url =
        serde_json::from_str::<serde_json::Value>(&line).unwrap()["listening"].as_str().unwrap().to_owned();
    let post = |path: &str, body: serde_json::Value| {
        let request =
            ureq::post(format!("{url}{path}")).header("traceparent", format!("00-{TRACE}-{SPAN}-01"));
        let config = request.config().http_status_as_error(false).timeout_global(Some(common::LIMIT)).build();
        let mut response = config.send_json(body).unwrap();
        (response.status().as_u16(), response.body_mut().read_json::<serde_json::Value>().unwrap())
    };
    let (status, enqueued) = post("/api/v1/jobs", serde_json::json!({"queue": "q", "kind": "k"}));
    let id = enqueued["id"].as_str().unwrap();
    let (_, claimed) = post("/api/v1/claim", serde_json::json!({"queues": ["q"], "worker": "w"}));
    let job = &claimed["jobs"][0];
    assert_eq!((status, job["id"].as_str()), (201, Some(id)));
    let proof = serde_json::json!({"id": id, "attempt": job["attempt"], "token": claimed["token"]});
    let settle = serde_json::json!({"worker": "w", "jobs": [proof]});
    assert_eq!(post("/api/v1/complete", settle.clone()).0, 200);
    let mut otherwise = settle;
    otherwise["jobs"][0]["error"] = "late".into();
    assert_eq!(post("/api/v1/fail", otherwise).0, 409);
    assert_eq!(ureq::get(format!("{url}/api/v1/stats")).call().unwrap().status(), 200);
    signal(server.id(), Signal::TERM);
    assert_eq!(server.answer().status, Some(143));

    let spans = collector.spans();
    let seen: Vec<(&str, String)> = spans
        .iter()
        .map(|span| (span.name.as_str(), attribute(&span.attributes, "http.response.status_code")))
        .collect();
    let expected = [("jobs", "201"), ("claim", "200"), ("complete", "200"), ("fail", "409")]
        .map(|(path, status)| (format!("POST /api/v1/{path}"), status.to_owned()));
    assert_eq!(seen, expected.each_ref().map(|(name, status)| (name.as_str(), status.clone())));
    for span in &spans {
        assert_eq!((hex(&span.trace_id).as_str(), hex(&span.parent_span_id).as_str()), (TRACE, SPAN));
        assert_eq!(span.kind, SpanKind::Server as i32);
        assert!(
            span.status.as_ref().is_none_or(|status| status.code() == StatusCode::Unset),
            "a refusal is an answer"
        );
    }
    assert_eq!(job["traceparent"], format!("00-{TRACE}-{}-01", hex(&spans[0].span_id)));
}

/// What is wrong with an option or a variable is said before any job is touched.
#[test]
fn a_wrong_endpoint_or_protocol_is_refused_by_name() {
    let turno = Turno::new();
    let refused = |endpoint: &str, name: &str, value: &str| {
        let mut command = turno.command();
        command
            .args(["work", "--queue", "q", "--kind", "k=true", "--otlp-endpoint", endpoint])
            .env(name, value);
        let answer = common::finish(command, b"");
        assert_eq!(answer.status, Some(2), "{answer:?}");
        answer.error_line().to_owned()
    };
    assert!(refused("localhost:4318", "TURNO_X", "").contains("--otlp-endpoint"));
    let line = refused("http://localhost:4318", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    assert!(line.contains("OTEL_EXPORTER_OTLP_PROTOCOL") && line.contains("http/protobuf"), "{line}");
    let line = refused("http://localhost:4318", "OTEL_EXPORTER_OTLP_TIMEOUT", "soon");
    assert!(line.contains("OTEL_EXPORTER_OTLP_TIMEOUT"), "{line}");
}
