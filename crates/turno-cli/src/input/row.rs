//! One NDJSON row: an object that says what to enqueue. Unknown fields are errors, and the payload's text is kept
//! byte for byte.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use turno::{NewJob, limits};

use crate::exit::Fault;
use crate::parse;

/// What a row does not say.
#[derive(Debug, Clone, Default)]
pub struct RowDefaults {
    /// The queue.
    pub queue: Option<String>,
    /// The kind.
    pub kind: Option<String>,
    /// The priority.
    pub priority: Option<i32>,
    /// When it is due.
    pub run_at: Option<time::OffsetDateTime>,
    /// The failure budget.
    pub max_attempts: Option<u32>,
    /// The time per attempt.
    pub max_run: Option<Duration>,
    /// The trace that the job belongs to.
    pub traceparent: Option<String>,
}

/// A row as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row<'a> {
    #[serde(borrow)]
    queue: Option<Cow<'a, str>>,
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    priority: Option<i32>,
    #[serde(borrow)]
    run_at: Option<Cow<'a, str>>,
    max_attempts: Option<u32>,
    max_run_ms: Option<u64>,
    #[serde(borrow)]
    unique_key: Option<Cow<'a, str>>,
    #[serde(borrow)]
    idempotency_key: Option<Cow<'a, str>>,
    #[serde(borrow)]
    traceparent: Option<Cow<'a, str>>,
}

impl<'a> Row<'a> {
    /// Reads one line.
    pub fn parse(bytes: &'a [u8]) -> anyhow::Result<Self> {
        let text = std::str::from_utf8(bytes).map_err(|error| Fault::usage(format!("not UTF-8: {error}")))?;
        if !text.trim_start().starts_with('{') {
            return Err(Fault::usage("not a JSON object").into());
        }
        let mut document = serde_json::Deserializer::from_str(text);
        let row = serde_path_to_error::deserialize(&mut document).map_err(|error| {
            let field = error.path().to_string();
            let why = error.into_inner();
            // Of a text that is no JSON, or of a field that is unknown or there twice, the error itself says which.
            if why.is_data() && !why.to_string().contains(&format!("`{field}`")) && field != "." {
                at_column(&format!("{field}: {why}"))
            } else {
                at_column(&why.to_string())
            }
        })?;
        document.end().map_err(|error| at_column(&error.to_string()))?;
        Ok(row)
    }

    /// The first field that says where the job goes or what identifies it, for callers that decide that themselves.
    pub fn routing_field(&self) -> Option<&'static str> {
        let fields =
            [("queue", &self.queue), ("kind", &self.kind), ("idempotency_key", &self.idempotency_key)];
        fields.into_iter().find_map(|(name, value)| value.is_some().then_some(name))
    }

    /// The job it stands for, checked against every limit that a client can check.
    pub fn into_job(self, defaults: &RowDefaults) -> anyhow::Result<NewJob> {
        let text = |own: Option<Cow<'a, str>>| own.map(Cow::into_owned);
        let missing = |name: &str| Fault::usage(format!("missing field `{name}`"));
        let queue = text(self.queue).or_else(|| defaults.queue.clone()).ok_or_else(|| missing("queue"))?;
        let kind = text(self.kind).or_else(|| defaults.kind.clone()).ok_or_else(|| missing("kind"))?;
        let payload = self.payload.map_or("null", RawValue::get);
        let run_at = self.run_at.map(|text| parse::instant(&text)).transpose();
        let mut job = NewJob::new(queue, kind, payload);
        job.run_at = run_at.map_err(|why| Fault::usage(format!("run_at {why}")))?.or(defaults.run_at);
        job.priority = self.priority.or(defaults.priority);
        job.max_attempts = self.max_attempts.or(defaults.max_attempts);
        job.max_run = self.max_run_ms.map(Duration::from_millis).or(defaults.max_run);
        job.unique_key = text(self.unique_key);
        job.idempotency_key = text(self.idempotency_key);
        job.traceparent = text(self.traceparent).or_else(|| defaults.traceparent.clone());
        job.check(limits::PAYLOAD_BYTES_MAX_DEFAULT)?;
        Ok(job)
    }
}

/// A row is one line, of which only the column says more.
fn at_column(why: &str) -> Fault {
    Fault::usage(why.replace(" at line 1 column ", " at column "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(text: &str) -> Result<NewJob, String> {
        let defaults =
            RowDefaults { queue: Some("q".into()), kind: Some("k".into()), ..RowDefaults::default() };
        let row = Row::parse(text.as_bytes()).and_then(|row| row.into_job(&defaults));
        row.map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn the_payload_is_the_same_text() {
        let text = r#"{ "a" : 1.0,"n":1970670598291982290 , "z":"\u0000\ud83d\ude00"}"#;
        assert_eq!(job(&format!(r#"{{"payload":{text}}}"#)).unwrap().payload, text);
        assert_eq!(job("{}").unwrap().payload, "null");
    }

    #[test]
    fn a_row_beyond_a_limit_names_the_field() {
        let deep = format!(r#"{{"payload":{}{}}}"#, "[".repeat(101), "]".repeat(101));
        let table = [
            (r#"{"payloads":1}"#, "unknown field `payloads`"),
            (r#"{"priority":1001}"#, "priority 1001"),
            (r#"{"priority":99999999999}"#, "priority: invalid value: integer `99999999999`"),
            (r#"{"max_attempts":0}"#, "max_attempts 0"),
            (r#"{"max_attempts":-1}"#, "max_attempts: invalid value: integer `-1`"),
            (r#"{"unique_key":7}"#, "unique_key: invalid type: integer `7`"),
            (r#"{"max_run_ms":99999999999999}"#, "max_run"),
            (r#"{"run_at":"2027-01-01T00:00:00"}"#, "has no offset"),
            (r#"{"queue":""}"#, "queue is empty"),
            (r#"{"queue":"a\u0000"}"#, "control character"),
            (r#"{"unique_key":"\u0000"}"#, "unique_key contains NUL"),
            (r#"{"payload":1,"payload":2}"#, "duplicate field `payload`"),
            ("[]", "not a JSON object"),
            (r#"{"payload":}"#, "at column"),
            (r#"{"payload":1} x"#, "trailing characters"),
            (&deep, "nested deeper than 100"),
        ];
        for (text, why) in table {
            let error = job(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
