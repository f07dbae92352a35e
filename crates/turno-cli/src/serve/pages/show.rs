//! Values as pages show them. It refuses to compare the database's instants with a clock of its own: instants are shown
//! as they are, in UTC.

use std::time::Duration;

use time::{OffsetDateTime, UtcOffset};
use turno::{Count, JobRecord, State};

use crate::output::one_line;
use crate::parse;

/// Most characters of an error in a table.
const ERROR_CHARS: usize = 160;

/// A count; `+` says that there are at least as many.
pub fn count(count: &Count) -> String {
    format!("{}{}", number(count.n), if count.capped { "+" } else { "" })
}

/// A whole number, its thousands apart.
pub fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A size.
pub fn bytes(n: usize) -> String {
    match n {
        0..10_240 => format!("{} bytes", number(n as u64)),
        10_240..1_048_576 => format!("{} KiB", n / 1024),
        _ => format!("{:.1} MiB", n as f64 / 1_048_576.0),
    }
}

/// From one instant of the database to another.
pub fn between(from: OffsetDateTime, to: OffsetDateTime) -> String {
    time(Duration::try_from(to - from).ok())
}

/// A duration, or a dash.
pub fn time(time: Option<Duration>) -> String {
    time.map_or_else(|| "–".to_owned(), parse::show)
}

/// Two percentiles.
pub fn pair(p50: Option<Duration>, p99: Option<Duration>) -> String {
    if p50.is_none() && p99.is_none() { time(None) } else { format!("{} / {}", time(p50), time(p99)) }
}

/// An instant to the second.
pub fn instant(at: OffsetDateTime) -> String {
    let at = at.to_offset(UtcOffset::UTC);
    let (date, time) = (at.date(), at.time());
    format!("{date} {:02}:{:02}:{:02}", time.hour(), time.minute(), time.second())
}

/// An instant, or nothing.
pub fn instant_or(at: Option<OffsetDateTime>) -> String {
    at.map(instant).unwrap_or_default()
}

/// Text for one line of a table.
pub fn line(text: Option<&str>) -> String {
    one_line(text.unwrap_or_default(), ERROR_CHARS)
}

/// Text for a part of a URL.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                escaped.push(char::from(byte))
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// A line of a table of jobs.
pub struct JobLine {
    /// See the table's headings, from here on.
    pub id: String,
    pub state: State,
    pub queue: String,
    pub kind: String,
    pub priority: i32,
    pub attempt: i64,
    pub failures: String,
    pub due: String,
    pub worker: String,
    pub until: String,
    pub error: String,
}

impl From<&JobRecord> for JobLine {
    fn from(job: &JobRecord) -> Self {
        JobLine {
            id: job.id.to_string(),
            state: job.state,
            queue: job.queue.clone(),
            kind: job.kind.clone(),
            priority: job.priority,
            attempt: job.attempt,
            failures: format!("{}/{}", job.failures, job.max_attempts),
            due: instant(job.run_at),
            worker: job.worker.clone().unwrap_or_default(),
            until: instant_or(job.finished_at.or(job.lease_until)),
            error: line(job.error.as_deref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_short_and_urls_are_safe() {
        assert_eq!(instant(time::macros::datetime!(2026-11-30 08:05:09.123 +02:00)), "2026-11-30 06:05:09");
        assert_eq!(escaped("a b&c=é/\"<"), "a%20b%26c%3D%C3%A9%2F%22%3C");
        assert_eq!(pair(None, None), "–");
        assert_eq!(count(&Count { n: 10_000, capped: true }), "10,000+");
        assert_eq!([0, 999, 1000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1000, 65_536, 3 << 19].map(bytes), ["0 bytes", "1,000 bytes", "64 KiB", "1.5 MiB"]);
    }
}
