//! Values of the command line: durations, instants, settings. It refuses to guess: a time without an offset is an
//! error, and so is a duration without a unit.

use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use turno::Keep;

/// A duration such as `10s`, `500ms`, `1h 30m`, `7d`.
pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write a number with a unit, such as 500ms, 10s, 5m, 1h or 7d"))
}

/// An instant in RFC 3339 with an offset.
pub fn instant(text: &str) -> Result<OffsetDateTime, String> {
    if let Ok(instant) = OffsetDateTime::parse(text, &Rfc3339) {
        return Ok(instant);
    }
    let why = match OffsetDateTime::parse(&format!("{text}Z"), &Rfc3339) {
        Ok(_) => "has no offset: end it with Z or with one such as +02:00",
        Err(_) => "is not an instant of RFC 3339, such as 2027-01-31T08:00:00Z",
    };
    Err(format!("{text:?} {why}"))
}

/// A duration, or `word` for `None`.
pub fn duration_or(word: &str, text: &str) -> Result<Option<Duration>, String> {
    if text == word { Ok(None) } else { duration(text).map(Some) }
}

/// How long a record is kept: a duration, or `forever`.
pub fn keep(text: &str) -> Result<Keep, String> {
    Ok(duration_or("forever", text)?.map_or(Keep::Forever, Keep::For))
}

/// A duration for people, such as `1m 30s`, at most two units.
pub fn show(duration: Duration) -> String {
    let rounded = match duration {
        d if d < Duration::from_secs(10) => Duration::from_millis(d.as_millis() as u64),
        d => Duration::from_secs(d.as_secs()),
    };
    let text = humantime::format_duration(rounded).to_string();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// An instant in RFC 3339, UTC.
pub fn show_instant(instant: OffsetDateTime) -> String {
    instant.to_offset(time::UtcOffset::UTC).format(&Rfc3339).unwrap_or_else(|_| instant.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_without_an_offset_is_refused_by_name() {
        assert!(instant("2027-01-31T08:00:00").unwrap_err().contains("has no offset"));
        assert!(instant("tomorrow").unwrap_err().contains("RFC 3339"));
        assert_eq!(instant("2027-01-31T08:00:00+02:00").unwrap().unix_timestamp(), 1_801_375_200);
    }

    #[test]
    fn a_duration_needs_a_unit() {
        assert!(duration("10").unwrap_err().contains("500ms"));
        assert!(duration("-1s").is_err());
        assert_eq!(duration("1h 30m").unwrap(), Duration::from_secs(5400));
        assert_eq!(keep("forever").unwrap(), Keep::Forever);
    }

    #[test]
    fn durations_are_shown_with_at_most_two_units() {
        assert_eq!(show(Duration::from_secs(90_061)), "1day 1h");
        assert_eq!(show(Duration::from_micros(1_500_900)), "1s 500ms");
        assert_eq!(show(Duration::ZERO), "0s");
    }
}
