//! Connections: large bodies that nobody wants, clients that are slow or never stop, and too many at once. All with real sockets.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::cases;
use crate::common::{LIMIT, until};
use crate::rig::{Rig, Server};

cases![
    a_large_body_that_is_refused_is_answered,
    a_client_that_never_stops_sending_is_cut,
    headers_that_do_not_arrive_end_the_connection,
    a_connection_beyond_the_most_is_told_so,
];

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// The client writes all of its body before it reads anything.
fn a_large_body_that_is_refused_is_answered(rig: &Rig) {
    let mut server = rig.serve(&["--token-file", &rig.token_file()]);
    let large = "x".repeat(12 << 20);
    let refused = |server: &Server, path: &str, expected: (u16, &str)| {
        let said = server.send("POST", path, &JSON, &large);
        assert_eq!(said.problem(), (expected.0, expected.1.to_owned()), "{path}");
        assert_eq!(said.header("connection"), Some("close"));
    };
    for path in ["/api/v1/jobs", "/api/v1/jobs/batch", "/api/v1/complete"] {
        refused(&server, path, (401, "unauthorized"));
    }
    refused(&server, "/api/v1/nothing", (404, "not_found"));
    server.as_role("viewer");
    refused(&server, "/api/v1/claim", (403, "permission_denied"));
    server.as_role("producer");
    refused(&server, "/api/v1/jobs", (413, "body_too_large"));
    let plain = server.send("POST", "/api/v1/jobs", &[("content-type", "text/plain")], &large);
    assert_eq!(plain.problem(), (415, "unsupported_media_type".into()));
    // What was read to its end keeps its connection.
    let whole = server.send("POST", "/api/v1/jobs", &JSON, "{");
    assert_eq!((whole.problem().0, whole.header("connection")), (400, None));
}

fn a_client_that_never_stops_sending_is_cut(rig: &Rig) {
    let server = rig.serve(&[]);
    let mut stream = server.connect();
    let head = head(&server, "POST", "/api/v1/jobs", "transfer-encoding: chunked\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = [&b"100000\r\n"[..], &[b'x'; 1 << 20], b"\r\n"].concat();
    // 2 MiB of the body are read, 64 MiB thrown away, and the rest fills what the system buffers.
    let sent = (0..256).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    assert!((60..200).contains(&sent), "{sent} MiB were taken");
    assert_eq!(server.get("/healthz").status, 200);
}

/// Rule of the server: 15 s.
fn headers_that_do_not_arrive_end_the_connection(rig: &Rig) {
    let server = rig.serve(&[]);
    let (mut silent, mut slow) = (server.connect(), server.connect());
    let began = Instant::now();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nhost: local").unwrap();
    assert_eq!(server.get("/healthz").status, 200, "nobody else waits");
    for stream in [&mut silent, &mut slow] {
        assert_eq!(end_of(stream), "", "it is closed without an answer");
        let took = began.elapsed();
        assert!(took > Duration::from_secs(10) && took < LIMIT, "{took:?}");
    }
}

fn a_connection_beyond_the_most_is_told_so(rig: &Rig) {
    let server = rig.serve(&["--connections-max", "2"]);
    let (mut one, mut other) = (server.connect(), server.connect());
    for stream in [&mut one, &mut other] {
        assert!(ask(&server, stream).starts_with("HTTP/1.1 200 "));
    }
    let third = server.send("POST", "/api/v1/jobs", &JSON, &"x".repeat(3 << 20));
    assert_eq!(third.problem(), (503, "too_many_connections".into()));
    assert_eq!((third.header("retry-after"), third.header("connection")), (Some("1"), Some("close")));
    // Who is connected goes on.
    assert!(ask(&server, &mut one).starts_with("HTTP/1.1 200 "));
    drop(other);
    until("a turn is free", || server.get("/healthz").status == 200);
    let scrape = server.get("/metrics").text;
    let open = scrape.lines().find_map(|line| line.strip_prefix("turno_http_connections "));
    assert!(matches!(open, Some("1" | "2")), "this one, and perhaps the idle one: {open:?}");
}

fn head(server: &Server, method: &str, path: &str, more: &str) -> String {
    let host = server.url.strip_prefix("http://").unwrap();
    format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n{more}\r\n")
}

/// Asks on a connection that stays open, and answers what `/healthz` said.
fn ask(server: &Server, stream: &mut TcpStream) -> String {
    stream.write_all(head(server, "GET", "/healthz", "").as_bytes()).unwrap();
    let (mut said, mut byte) = (Vec::new(), [0]);
    while !said.ends_with(b"\r\n\r\nok\n") {
        stream.read_exact(&mut byte).unwrap();
        said.push(byte[0]);
    }
    String::from_utf8(said).unwrap()
}

/// What comes until the other side closes; it may do so by a reset.
fn end_of(stream: &mut TcpStream) -> String {
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("not closed: {error}"),
        _ => String::from_utf8(said).unwrap(),
    }
}
