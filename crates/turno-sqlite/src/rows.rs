//! From rows to the contract's types, and from its durations and instants to numbers. Refuses to fail on the content of
//! a row: text that is no UTF-8 and words that do not exist are shown as well as possible (rule C6).

use std::time::Duration;

use rusqlite::Row;
use rusqlite::types::{FromSql, ValueRef};
use time::OffsetDateTime;
use turno_contract::{
    ClaimedJob, Error, JobId, Keep, Proof, QueueSettings, Result, State, Token, Verb, whole_ms,
};
use uuid::Uuid;

/// Latest instant that a row may hold: the last millisecond of the year 9999.
const MICROS_MAX: i64 = 253_402_300_799_999_000;
/// What one level of priority weighs in the rank of a queue without aging: 142 years.
const STRICT_STEP: i64 = 1 << 52;

/// Reads the columns of a row one after the other.
pub(crate) struct Columns<'r> {
    row: &'r Row<'r>,
    next: usize,
}

impl<'r> Columns<'r> {
    pub(crate) fn of(row: &'r Row<'r>) -> Self {
        Columns { row, next: 0 }
    }

    fn position(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    pub(crate) fn value<T: FromSql>(&mut self) -> rusqlite::Result<T> {
        let position = self.position();
        self.row.get(position)
    }

    /// Text, or `None` for NULL.
    pub(crate) fn text_opt(&mut self) -> rusqlite::Result<Option<String>> {
        let position = self.position();
        Ok(match self.row.get_ref(position)? {
            ValueRef::Null => None,
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                Some(String::from_utf8_lossy(bytes).into_owned())
            }
            ValueRef::Integer(number) => Some(number.to_string()),
            ValueRef::Real(number) => Some(number.to_string()),
        })
    }

    pub(crate) fn text(&mut self) -> rusqlite::Result<String> {
        Ok(self.text_opt()?.unwrap_or_default())
    }

    /// A payload. Bytes that are no UTF-8 can only have come by plain SQL: the worker is given something that is no JSON
    /// and says what it is, so that the job ends with that diagnosis (rule E10).
    fn payload(&mut self) -> rusqlite::Result<String> {
        let position = self.position();
        let bytes = self.row.get_ref(position)?.as_bytes()?;
        Ok(match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(error) => format!("this payload is not UTF-8 ({error}): {}", String::from_utf8_lossy(bytes)),
        })
    }

    pub(crate) fn instant(&mut self) -> rusqlite::Result<OffsetDateTime> {
        Ok(instant(self.value()?))
    }

    pub(crate) fn instant_opt(&mut self) -> rusqlite::Result<Option<OffsetDateTime>> {
        Ok(self.value::<Option<i64>>()?.map(instant))
    }

    /// A duration in milliseconds.
    pub(crate) fn millis(&mut self) -> rusqlite::Result<Duration> {
        Ok(Duration::from_millis(self.value::<i64>()?.max(0) as u64))
    }

    /// A duration in milliseconds, or `None` for NULL.
    pub(crate) fn millis_opt(&mut self) -> rusqlite::Result<Option<Duration>> {
        Ok(self.value::<Option<i64>>()?.map(|ms| Duration::from_millis(ms.max(0) as u64)))
    }

    /// A number that a CHECK keeps within 32 bits.
    pub(crate) fn small<T: TryFrom<i64> + Default>(&mut self) -> rusqlite::Result<T> {
        Ok(T::try_from(self.value()?).unwrap_or_default())
    }

    pub(crate) fn uuid(&mut self) -> rusqlite::Result<Uuid> {
        let bytes: Vec<u8> = self.value()?;
        Ok(Uuid::from_slice(&bytes).unwrap_or_default())
    }

    pub(crate) fn job(&mut self) -> rusqlite::Result<JobId> {
        Ok(JobId(self.value()?))
    }

    pub(crate) fn state(&mut self) -> rusqlite::Result<State> {
        Ok(self.state_opt()?.unwrap_or(State::Dead))
    }

    pub(crate) fn state_opt(&mut self) -> rusqlite::Result<Option<State>> {
        Ok(self.text_opt()?.and_then(|word| word.parse().ok()))
    }

    pub(crate) fn verb(&mut self) -> rusqlite::Result<Verb> {
        Ok(self.text()?.parse().unwrap_or(Verb::Expire))
    }
}

/// A job of `claim.take` or `held.list`. `None` if its token is nil, which only plain SQL can have written.
pub(crate) fn claimed(row: &Row) -> rusqlite::Result<Option<ClaimedJob>> {
    let mut columns = Columns::of(row);
    let (job, attempt) = (columns.job()?, columns.value()?);
    let Ok(token) = Token::new(columns.uuid()?) else { return Ok(None) };
    Ok(Some(ClaimedJob {
        proof: Proof { job, attempt, token },
        queue: columns.text()?,
        kind: columns.text()?,
        payload: columns.payload()?,
        priority: columns.small()?,
        failures: columns.small()?,
        max_attempts: columns.small()?,
        operation_id: columns.uuid()?,
        run_at: columns.instant()?,
        created_at: columns.instant()?,
        claimed_at: columns.instant()?,
        lease_until: columns.instant()?,
        max_run: columns.millis()?,
        rank: columns.value()?,
        traceparent: columns.text_opt()?,
    }))
}

/// Settings as they are stored, for arithmetic.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) queue: String,
    pub(crate) description: Option<String>,
    pub(crate) paused_at: Option<i64>,
    pub(crate) aging_ms: Option<i64>,
    pub(crate) max_attempts: u32,
    pub(crate) max_run_ms: i64,
    pub(crate) retry_base_ms: i64,
    pub(crate) retry_cap_ms: i64,
    pub(crate) max_attempts_limit: u32,
    pub(crate) max_run_limit_ms: i64,
    pub(crate) run_at_horizon_ms: Option<i64>,
    pub(crate) keep_succeeded_ms: i64,
    pub(crate) keep_cancelled_ms: i64,
    pub(crate) keep_dead_ms: i64,
    pub(crate) receipts_ms: i64,
}

impl Settings {
    pub(crate) fn read(row: &Row) -> rusqlite::Result<Self> {
        let mut columns = Columns::of(row);
        Ok(Settings {
            queue: columns.text()?,
            description: columns.text_opt()?,
            paused_at: columns.value()?,
            aging_ms: columns.value()?,
            max_attempts: columns.small()?,
            max_run_ms: columns.value()?,
            retry_base_ms: columns.value()?,
            retry_cap_ms: columns.value()?,
            max_attempts_limit: columns.small()?,
            max_run_limit_ms: columns.value()?,
            run_at_horizon_ms: columns.value()?,
            keep_succeeded_ms: columns.value()?,
            keep_cancelled_ms: columns.value()?,
            keep_dead_ms: columns.value()?,
            receipts_ms: columns.value()?,
        })
    }

    /// What one level of priority weighs in the rank.
    pub(crate) fn step(&self) -> i64 {
        self.aging_ms.map_or(STRICT_STEP, |aging_ms| aging_ms * 1000)
    }

    /// The same as the contract says it.
    pub(crate) fn public(self) -> QueueSettings {
        let keep = |ms: i64| if ms < 0 { Keep::Forever } else { Keep::For(millis(ms)) };
        QueueSettings {
            queue: Some(self.queue).filter(|queue| !queue.is_empty()),
            description: self.description,
            paused_at: self.paused_at.map(instant),
            aging: self.aging_ms.map(millis),
            max_attempts: self.max_attempts,
            max_run: millis(self.max_run_ms),
            retry_base: millis(self.retry_base_ms),
            retry_cap: millis(self.retry_cap_ms),
            max_attempts_limit: self.max_attempts_limit,
            max_run_limit: millis(self.max_run_limit_ms),
            run_at_horizon: self.run_at_horizon_ms.map(millis),
            keep_succeeded: keep(self.keep_succeeded_ms),
            keep_cancelled: keep(self.keep_cancelled_ms),
            keep_dead: keep(self.keep_dead_ms),
            receipts: millis(self.receipts_ms),
        }
    }
}

/// A number of milliseconds as a duration.
pub(crate) fn millis(ms: i64) -> Duration {
    Duration::from_millis(ms.max(0) as u64)
}

/// A number of microseconds since 1970 as an instant.
pub(crate) fn instant(micros: i64) -> OffsetDateTime {
    let micros = micros.clamp(0, MICROS_MAX);
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1000).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// An instant in microseconds since 1970.
pub(crate) fn micros_of(instant: OffsetDateTime) -> i64 {
    instant.unix_timestamp_nanos().div_euclid(1000).clamp(0, i128::from(MICROS_MAX)) as i64
}

/// An instant in microseconds since 1970, rounded up to a whole millisecond (rule T3).
pub(crate) fn micros_rounded_up(instant: OffsetDateTime) -> i64 {
    let ms = -(-instant.unix_timestamp_nanos()).div_euclid(1_000_000);
    (ms * 1000).clamp(0, i128::from(MICROS_MAX)) as i64
}

/// A duration in microseconds.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// A duration in milliseconds, rounded up. `what` names it in the error if it is longer than `max`.
pub(crate) fn millis_rounded_up(what: &str, duration: Duration, max: Duration) -> Result<i64> {
    if duration > max {
        return Err(Error::invalid(format!("{what} {duration:?} is longer than {max:?}")));
    }
    Ok(whole_ms(duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_rounded_up_to_the_next_millisecond() {
        let at = |nanos: i128| OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap();
        assert_eq!(micros_rounded_up(at(1_000_001)), 2_000);
        assert_eq!(micros_rounded_up(at(1_000_000)), 1_000);
        assert_eq!(micros_rounded_up(at(-5)), 0, "before 1970 is past, and past means now");
        assert_eq!(micros_rounded_up(time::macros::datetime!(9999-12-31 23:59:59.9999 UTC)), MICROS_MAX);
    }

    #[test]
    fn durations_are_rounded_up_to_the_next_millisecond() {
        let day = Duration::from_secs(86_400);
        assert_eq!(millis_rounded_up("delay", Duration::from_nanos(1), day).unwrap(), 1);
        assert_eq!(millis_rounded_up("delay", day, day).unwrap(), 86_400_000);
        assert!(millis_rounded_up("delay", day * 2, day).unwrap_err().message().starts_with("delay"));
    }
}
