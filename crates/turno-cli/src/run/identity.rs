//! What a line is: its identity, its job, and the bytes that come back out of the job. A line is known by the run's
//! name, its bytes, and its number among equal lines, so it refuses to look at where the line stands.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use turno::{ClaimedJob, NewJob, limits};

use super::args::Args;
use crate::exit::Fault;
use crate::input::{Line, Row, RowDefaults};

/// The kind of a job that is a line.
const KIND_LINE: &str = "line";
/// The kind of a job that is an NDJSON row.
const KIND_ROW: &str = "row";

/// The payload of a line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
enum Payload {
    /// A line in UTF-8.
    #[serde(rename = "line")]
    Text(String),
    /// Any other line, in hexadecimal digits.
    #[serde(rename = "line_hex")]
    Hex(String),
}

/// Makes jobs of the lines of one input.
pub struct Identifier {
    name: String,
    ndjson: bool,
    /// How often the bytes with this digest have come.
    seen: HashMap<[u8; 16], u64>,
    has_placeholder: bool,
    defaults: RowDefaults,
}

impl Identifier {
    /// For the input of this run.
    pub fn new(args: &Args) -> Self {
        let defaults = RowDefaults {
            queue: Some(args.queue()),
            kind: Some(KIND_ROW.to_owned()),
            max_attempts: Some(args.max_attempts),
            max_run: Some(args.max_run()),
            ..RowDefaults::default()
        };
        let has_placeholder = args.command.iter().any(|arg| replace(arg, b"") != *arg);
        Identifier {
            name: args.name.clone(),
            ndjson: args.ndjson,
            seen: HashMap::new(),
            has_placeholder,
            defaults,
        }
    }

    /// The job of a line; `None` for a line that is skipped. Errors say why the line cannot be run.
    pub fn job(&mut self, line: &Line) -> anyhow::Result<Option<NewJob>> {
        let empty = if self.ndjson { line.bytes.trim_ascii().is_empty() } else { line.bytes.is_empty() };
        if empty {
            return Ok(None);
        }
        let job = if self.ndjson { self.row(&line.bytes)? } else { self.line(&line.bytes)? };
        let key = self.key(&line.bytes);
        Ok(Some(job.idempotency_key(key)))
    }

    fn line(&self, bytes: &[u8]) -> anyhow::Result<NewJob> {
        if self.has_placeholder && bytes.contains(&0) {
            return Err(Fault::usage("holds NUL, which cannot stand for {} in an argument").into());
        }
        let payload = match std::str::from_utf8(bytes) {
            Ok(text) => Payload::Text(text.to_owned()),
            Err(_) => Payload::Hex(hex(bytes)),
        };
        let queue = self.defaults.queue.clone().unwrap_or_default();
        let mut job = NewJob::new(queue, KIND_LINE, serde_json::to_string(&payload)?);
        job.max_attempts = self.defaults.max_attempts;
        job.max_run = self.defaults.max_run;
        job.check(limits::PAYLOAD_BYTES_MAX_DEFAULT)?;
        Ok(job)
    }

    fn row(&self, bytes: &[u8]) -> anyhow::Result<NewJob> {
        let row = Row::parse(bytes)?;
        if let Some(field) = row.routing_field() {
            return Err(
                Fault::usage(format!("`{field}` is not for `turno run`, which sets it itself")).into()
            );
        }
        row.into_job(&self.defaults)
    }

    fn key(&mut self, bytes: &[u8]) -> String {
        let digest = Sha256::digest(bytes);
        let mut short = [0; 16];
        short.copy_from_slice(&digest[..16]);
        let nth = self.seen.entry(short).or_default();
        *nth += 1;
        let mut key = Sha256::new();
        // The length keeps a name and a line from running into each other.
        key.update((self.name.len() as u64).to_be_bytes());
        key.update(self.name.as_bytes());
        key.update(nth.to_be_bytes());
        key.update(digest);
        hex(&key.finalize())
    }
}

/// The bytes of the line that a job stands for; an error for a job that some other program put into the queue.
pub fn bytes_of(job: &ClaimedJob) -> Result<Vec<u8>, String> {
    if job.kind != KIND_LINE {
        return Ok(job.payload.clone().into_bytes());
    }
    match serde_json::from_str(&job.payload) {
        Ok(Payload::Text(text)) => Ok(text.into_bytes()),
        Ok(Payload::Hex(digits)) => unhex(&digits).ok_or_else(|| "line_hex is not hexadecimal".to_owned()),
        Err(error) => Err(format!("the payload is no line of a run: {error}")),
    }
}

/// The line of a job as people read it.
pub fn shown(kind: &str, payload: Option<&str>) -> String {
    let payload = payload.unwrap_or_default();
    let text = match (kind, serde_json::from_str(payload)) {
        (KIND_LINE, Ok(Payload::Text(text))) => text,
        (KIND_LINE, Ok(Payload::Hex(digits))) => {
            String::from_utf8_lossy(&unhex(&digits).unwrap_or_default()).into_owned()
        }
        _ => payload.to_owned(),
    };
    crate::output::one_line(&text, 60)
}

/// The argument with every `{}` replaced by these bytes.
pub fn replace(arg: &OsStr, bytes: &[u8]) -> OsString {
    let (mut replaced, mut rest) = (Vec::new(), arg.as_bytes());
    while let Some(at) = rest.windows(2).position(|pair| pair == b"{}") {
        replaced.extend_from_slice(&rest[..at]);
        replaced.extend_from_slice(bytes);
        rest = &rest[at + 2..];
    }
    replaced.extend_from_slice(rest);
    OsString::from_vec(replaced)
}

/// Hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identifier(arguments: &[&str]) -> Identifier {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: Args,
        }
        let parsed: Line = clap::Parser::parse_from(["run"].iter().chain(arguments));
        Identifier::new(&parsed.args)
    }

    fn keys(identifier: &mut Identifier, lines: &[&[u8]]) -> Vec<String> {
        let line = |bytes: &&[u8]| Line { number: 1, bytes: bytes.to_vec() };
        let jobs = lines.iter().map(|bytes| identifier.job(&line(bytes)).unwrap().unwrap());
        jobs.map(|job| job.idempotency_key.unwrap()).collect()
    }

    #[test]
    fn a_line_is_its_bytes_and_its_number_among_equal_ones() {
        let first = keys(&mut identifier(&["--", "cat"]), &[b"a", b"b", b"a"]);
        let moved = keys(&mut identifier(&["--", "cat"]), &[b"a", b"a", b"c", b"b"]);
        assert_eq!([&first[0], &first[2], &first[1]], [&moved[0], &moved[1], &moved[3]]);
        assert!(!first.contains(&moved[2]));
        assert_ne!(keys(&mut identifier(&["--name", "x", "--", "cat"]), &[b"a"])[0], first[0]);
    }

    #[test]
    fn bytes_that_are_not_utf_8_come_back() {
        for bytes in [&b"\xff\x00 a"[..], b"plain", "é\u{0}".as_bytes()] {
            let line = Line { number: 1, bytes: bytes.to_vec() };
            let job = identifier(&["--", "cat"]).job(&line).unwrap().unwrap();
            let payload: Payload = serde_json::from_str(&job.payload).unwrap();
            let back = match payload {
                Payload::Text(text) => text.into_bytes(),
                Payload::Hex(digits) => unhex(&digits).unwrap(),
            };
            assert_eq!(back, bytes);
        }
        assert_eq!(unhex("0"), None);
        assert_eq!(unhex("0g"), None);
    }

    #[test]
    fn every_placeholder_is_replaced_once() {
        assert_eq!(
            replace(OsStr::new("a{}b{}{"), b"{}\xff"),
            OsString::from_vec(b"a{}\xffb{}\xff{".to_vec())
        );
        assert_eq!(replace(OsStr::new("{"), b"x"), "{");
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        let mut lines = identifier(&["--", "cat", "{}"]);
        let line = |bytes: &[u8]| Line { number: 1, bytes: bytes.to_vec() };
        assert!(lines.job(&line(b"a\0b")).unwrap_err().to_string().contains("NUL"));
        assert!(lines.job(&line(b"")).unwrap().is_none());
        let mut rows = identifier(&["--ndjson", "--", "cat"]);
        for row in [r#"{"queue":"q"}"#, r#"{"kind":"k"}"#, r#"{"idempotency_key":"k"}"#] {
            assert!(rows.job(&line(row.as_bytes())).unwrap_err().to_string().contains("sets it itself"));
        }
        assert!(rows.job(&line(b" \t")).unwrap().is_none());
    }
}
