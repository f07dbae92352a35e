//! When a schedule's instants are: a cron expression on the wall clock of a time zone (rule K7), and what becomes of the instants that
//! nobody fired in time (rule K4). It is told the time, and refuses to know a clock or a database.
//!
//! An expression has five fields, minute, hour, day of month, month, day of week, or six with seconds first, or seven with years last;
//! names of months and days, `L`, `W`, `#` and `@daily` and its kind are understood. croner says which wall clock times match. What a
//! wall clock time means where the clock is moved is decided here:
//!
//! * A time that the clock skips runs at the first instant after the gap; several such times run once.
//! * A time that comes twice runs the first time.
//! * Where every hour matches (`*`), each instant runs whose wall clock time matches: in elapsed time nothing is doubled or lost.
//!
//! The rules of the zones are the system's, and those compiled into this program where the system has none.

use croner::Cron;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use time::OffsetDateTime;
use turno_contract::{DueSchedule, Error, Firing, Missed, Result, limits};

/// A cron expression on the wall clock of a time zone.
#[derive(Debug, Clone)]
pub struct Calendar {
    cron: Cron,
    zone: TimeZone,
    every_hour: bool,
}

impl Calendar {
    /// Reads an expression and the IANA name of a zone.
    ///
    /// # Errors
    /// `InvalidArgument` that says what cannot be read.
    pub fn new(cron: &str, zone: &str) -> Result<Self> {
        let parsed: Cron = cron.parse().map_err(|error| {
            Error::invalid(format!("the cron expression {cron:?} cannot be read: {error}"))
        })?;
        let zone = TimeZone::get(zone).map_err(|error| {
            let text = format!("{zone:?} is no time zone of the IANA database, such as Europe/Berlin or UTC");
            Error::invalid(text).with_source(error)
        })?;
        let every_hour = (0..24).all(|hour| parsed.pattern.hour_match(hour).unwrap_or(false));
        Ok(Calendar { cron: parsed, zone, every_hour })
    }

    /// The first instant after this one; `None` if there is none until the year 5000.
    pub fn next_after(&self, at: OffsetDateTime) -> Option<OffsetDateTime> {
        let next = self.next(Timestamp::from_second(at.unix_timestamp()).ok()?)?;
        OffsetDateTime::from_unix_timestamp(next.as_second()).ok()
    }

    /// The newest `n` instants after the one and at most the other, in order. The work is bounded, however many there are.
    pub fn newest(&self, after: OffsetDateTime, until: OffsetDateTime, n: usize) -> Vec<OffsetDateTime> {
        let (mut low, until) = (after.unix_timestamp(), until.unix_timestamp());
        let all = self.some_between(low, until, n + 1);
        if all.len() <= n {
            return all;
        }
        // Behind `low` are more than n, behind `high` are not.
        let mut high = until;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.some_between(middle, until, n + 1).len() {
                found if found > n => low = middle,
                _ => high = middle,
            }
        }
        self.some_between(high, until, n)
    }

    /// At most `n` of the instants after the one second and at most the other.
    fn some_between(&self, after: i64, until: i64, n: usize) -> Vec<OffsetDateTime> {
        let first = OffsetDateTime::from_unix_timestamp(after).ok();
        let instants = std::iter::successors(first, |at| self.next_after(*at)).skip(1);
        instants.take_while(|at| at.unix_timestamp() <= until).take(n).collect()
    }

    fn next(&self, at: Timestamp) -> Option<Timestamp> {
        if self.every_hour { self.next_shown(at) } else { self.next_meant(at) }
    }

    /// The first instant at which the wall clock shows a matching time. Between two changes of the clock that is arithmetic.
    fn next_shown(&self, mut at: Timestamp) -> Option<Timestamp> {
        let mut inclusive = false;
        loop {
            let offset = self.zone.to_offset(at);
            let wall = self.cron.find_next_occurrence(&offset.to_datetime(at), inclusive).ok()?;
            let found = offset.to_timestamp(wall).ok()?;
            match self.zone.following(at).next() {
                Some(change) if change.timestamp() <= found => (at, inclusive) = (change.timestamp(), true),
                _ => return Some(found),
            }
        }
    }

    /// The first instant that a matching wall clock time means. Both grow together, so the first one that is later is it.
    fn next_meant(&self, at: Timestamp) -> Option<Timestamp> {
        let mut wall = self.zone.to_datetime(at);
        loop {
            wall = self.cron.find_next_occurrence(&wall, false).ok()?;
            let found = self.meaning_of(wall)?;
            if found > at {
                return Some(found);
            }
        }
    }

    fn meaning_of(&self, wall: DateTime) -> Option<Timestamp> {
        match self.zone.to_ambiguous_timestamp(wall).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(wall).ok(),
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(wall).ok(),
            // By the offset after the gap the time lies just before the change.
            AmbiguousOffset::Gap { after, .. } => {
                let before_change = after.to_timestamp(wall).ok()?;
                self.zone.following(before_change).next().map(|change| change.timestamp())
            }
        }
    }
}

/// An instant as the wall clock of a zone shows it, with its offset and the zone's name: `2025-03-30T03:00:00+02:00[Europe/Berlin]`.
///
/// # Errors
/// `InvalidArgument` if there is no such zone.
pub fn show_in(at: OffsetDateTime, zone: &str) -> Result<String> {
    let unknown = |error: jiff::Error| Error::invalid(format!("{zone:?} is no time zone")).with_source(error);
    let at = Timestamp::from_second(at.unix_timestamp()).map_err(unknown)?;
    Ok(at.to_zoned(TimeZone::get(zone).map_err(unknown)?).to_string())
}

/// What a schedule that is due is to do, by the database's now.
///
/// # Errors
/// `InvalidArgument` if its expression or zone cannot be read.
pub fn plan(due: &DueSchedule, now: OffsetDateTime) -> Result<Firing> {
    let calendar = Calendar::new(&due.cron, &due.zone)?;
    let newest = |n| calendar.newest(due.done_until, now, n);
    let instants = match due.missed {
        Missed::Latest => newest(1),
        Missed::All(limit) => newest(limit.min(limits::SCHEDULE_RUNS_MAX) as usize),
        Missed::Skip => {
            let in_time = |at: &OffsetDateTime| now - *at < limits::SCHEDULE_SKIP_GRACE;
            newest(1).into_iter().filter(in_time).collect()
        }
    };
    Ok(Firing {
        name: due.name.clone(),
        revision: due.revision,
        until: now,
        instants,
        next_at: calendar.next_after(now),
    })
}

#[cfg(test)]
#[path = "calendar_tests.rs"]
mod tests;
