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

/// A duration for people, such as `1m 30s`: its two largest units.
pub fn show(duration: Duration) -> String {
    const UNITS: [(&str, u128); 5] =
        [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
    let mut left = duration.as_millis();
    let mut parts = Vec::new();
    let largest = UNITS.iter().position(|(_, ms)| left >= *ms).unwrap_or(UNITS.len());
    for (unit, ms) in UNITS.iter().skip(largest).take(2) {
        if left >= *ms {
            parts.push(format!("{}{unit}", left / ms));
        }
        left %= ms;
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
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
    fn durations_are_shown_by_their_two_largest_units() {
        let table = [(0, "0s"), (7, "7ms"), (1500, "1s 500ms"), (61_000, "1m 1s"), (3_600_900, "1h")];
        for (ms, shown) in table {
            assert_eq!(show(Duration::from_millis(ms)), shown);
        }
        assert_eq!(show(Duration::from_secs(365 * 86_400)), "365d");
        assert_eq!(show(Duration::from_secs(90_061)), "1d 1h");
    }
}
