//! Schedules: what is to become a job again and again. The database keeps them, decides by its own clock which are due,
//! and lets each instant become one job; when the next instant is, is for a calendar outside to say (`turno::calendar`), since no
//! engine has one. This module refuses to know cron.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;
use time::OffsetDateTime;

use crate::job::check_priority;
use crate::payload::{check_json, check_key, check_name};
use crate::{Error, JobId, Result, limits};

/// What becomes of the instants that nobody fired in time (rule K4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// None is made up for; one that is less than [`limits::SCHEDULE_SKIP_GRACE`] late is not missed.
    Skip,
    /// The newest becomes one job.
    Latest,
    /// The newest become a job each, in order, up to this many: 1..=[`limits::SCHEDULE_RUNS_MAX`].
    All(u32),
}

impl Missed {
    /// The word as it stands in the database, and the number beside it.
    pub fn parts(self) -> (&'static str, Option<u32>) {
        match self {
            Missed::Skip => ("skip", None),
            Missed::Latest => ("latest", None),
            Missed::All(limit) => ("all", Some(limit)),
        }
    }

    /// The policy of a row. Errors with `InvalidArgument` if it is none.
    pub fn from_parts(word: &str, limit: Option<i64>) -> Result<Self> {
        match (word, limit.and_then(|limit| u32::try_from(limit).ok())) {
            ("skip", None) => Ok(Missed::Skip),
            ("latest", None) => Ok(Missed::Latest),
            ("all", Some(limit)) => Ok(Missed::All(limit)),
            _ => Err(Error::invalid(format!("{word:?} is not one of skip, latest, all:N"))),
        }
    }
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts() {
            (word, None) => f.pad(word),
            (word, Some(limit)) => f.pad(&format!("{word}:{limit}")),
        }
    }
}

impl FromStr for Missed {
    type Err = Error;

    /// `skip`, `latest`, or `all:5`.
    fn from_str(text: &str) -> Result<Self> {
        let (word, limit) = match text.split_once(':') {
            Some((word, limit)) => (word, Some(limit.parse().map_err(|_| Missed::unknown(text))?)),
            None => (text, None),
        };
        Missed::from_parts(word, limit).map_err(|_| Missed::unknown(text))
    }
}

impl Missed {
    fn unknown(text: &str) -> Error {
        let max = limits::SCHEDULE_RUNS_MAX;
        Error::invalid(format!("{text:?} is not one of skip, latest, all:N with N in 1..={max}"))
    }
}

/// What a schedule is: its name, when, and the job that each instant becomes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Schedule {
    /// Its name, by which it is changed and removed; one an installation.
    pub name: String,
    /// A cron expression of five fields, or six with seconds first, as `turno::calendar` reads it.
    pub cron: String,
    /// The IANA name of the time zone whose wall clock the expression is about.
    pub zone: String,
    /// The queue of its jobs.
    pub queue: String,
    /// The kind of its jobs.
    pub kind: String,
    /// Their payload: JSON text. Each `{instant}` in it becomes the run's instant, `2030-01-31T06:00:00Z` (rule K6).
    pub payload: String,
    /// Their priority.
    pub priority: i32,
    /// Their failure budget; `None` takes the queue's default.
    pub max_attempts: Option<u32>,
    /// Their time per attempt; `None` takes the queue's default.
    pub max_run: Option<Duration>,
    /// With it at most one of its jobs is unfinished: an instant that comes meanwhile finds that job (rule E5).
    pub unique_key: Option<String>,
    /// What becomes of missed instants.
    pub missed: Missed,
}

impl Schedule {
    /// A schedule in UTC with every default: payload `null`, the newest missed instant is made up for.
    pub fn new(
        name: impl Into<String>,
        cron: impl Into<String>,
        queue: impl Into<String>,
        kind: impl Into<String>,
    ) -> Self {
        Schedule {
            name: name.into(),
            cron: cron.into(),
            zone: "UTC".to_owned(),
            queue: queue.into(),
            kind: kind.into(),
            payload: "null".to_owned(),
            priority: 0,
            max_attempts: None,
            max_run: None,
            unique_key: None,
            missed: Missed::Latest,
        }
    }

    /// Sets the time zone.
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = zone.into();
        self
    }

    /// Sets the payload of its jobs: JSON text.
    pub fn payload(mut self, payload: impl Into<String>) -> Self {
        self.payload = payload.into();
        self
    }

    /// Sets what becomes of missed instants.
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// Checks every limit but the meaning of cron and zone, which only a calendar knows.
    /// Errors with `InvalidArgument` that names the field.
    pub fn check(&self) -> Result<()> {
        check_schedule_name(&self.name)?;
        for (what, text, max) in [
            ("cron", &self.cron, limits::SCHEDULE_CRON_BYTES_MAX),
            ("zone", &self.zone, limits::SCHEDULE_ZONE_BYTES_MAX),
        ] {
            check_name(what, text)?;
            if text.len() > max {
                return Err(Error::invalid(format!("{what} has {} bytes, more than {max}", text.len())));
            }
        }
        check_name("queue", &self.queue)?;
        check_name("kind", &self.kind)?;
        check_json("payload", &self.payload, limits::SCHEDULE_PAYLOAD_BYTES_MAX)?;
        check_priority(self.priority)?;
        if let Some(key) = &self.unique_key {
            check_key("unique_key", key)?;
        }
        if let Missed::All(limit) = self.missed
            && !(1..=limits::SCHEDULE_RUNS_MAX).contains(&limit)
        {
            return Err(Missed::unknown(&self.missed.to_string()));
        }
        if let Some(n) = self.max_attempts
            && !(1..=limits::ATTEMPTS_MAX).contains(&n)
        {
            return Err(Error::invalid(format!("max_attempts {n} is not in 1..={}", limits::ATTEMPTS_MAX)));
        }
        if let Some(max_run) = self.max_run
            && !(limits::LEASE_MIN..=limits::MAX_RUN_MAX).contains(&max_run)
        {
            return Err(Error::invalid(format!("max_run {max_run:?} is not between 1 ms and 365 days")));
        }
        Ok(())
    }
}

/// Checks the name of a schedule. Errors with `InvalidArgument`.
pub fn check_schedule_name(name: &str) -> Result<()> {
    check_name("schedule", name)
}

/// What a put has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PutAnswer {
    /// There was no schedule of this name.
    Created,
    /// It is another one now.
    Changed,
    /// It was the same: nothing has moved.
    Unchanged,
}

impl FromStr for PutAnswer {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "created" => Ok(PutAnswer::Created),
            "changed" => Ok(PutAnswer::Changed),
            "unchanged" => Ok(PutAnswer::Unchanged),
            _ => Err(Error::invalid(format!("{text:?} is not one of created, changed, unchanged"))),
        }
    }
}

/// A schedule as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScheduleRecord {
    /// What it is.
    #[serde(flatten)]
    pub schedule: Schedule,
    /// Grows with every change and every fire: the fence of [`Firing`].
    pub revision: i64,
    /// Every instant until then is dealt with: it was fired, or passed over.
    #[serde(with = "time::serde::rfc3339")]
    pub done_until: OffsetDateTime,
    /// When it is to be looked at again: its next instant, or `done_until` if nobody has asked a calendar since. `None`: it has no
    /// further instant.
    #[serde(with = "time::serde::rfc3339::option")]
    pub next_at: Option<OffsetDateTime>,
    /// Since when it is paused.
    #[serde(with = "time::serde::rfc3339::option")]
    pub paused_at: Option<OffsetDateTime>,
    /// The instant of its last job.
    #[serde(with = "time::serde::rfc3339::option")]
    pub last_at: Option<OffsetDateTime>,
    /// Its last job.
    pub last_job: Option<JobId>,
    /// When it was created.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When somebody last changed, paused or resumed it.
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
}

/// A schedule whose time has come, with what a calendar needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueSchedule {
    /// Its name.
    pub name: String,
    /// Its expression.
    pub cron: String,
    /// Its time zone.
    pub zone: String,
    /// What becomes of missed instants.
    pub missed: Missed,
    /// The fence.
    pub revision: i64,
    /// Every instant until then is dealt with.
    pub done_until: OffsetDateTime,
    /// Since when it is due.
    pub next_at: OffsetDateTime,
}

/// The answer to "what is due".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueSchedules {
    /// The database's clock, for the calendar: no other clock decides (rule K2).
    pub now: OffsetDateTime,
    /// Those that are due, longest first.
    pub schedules: Vec<DueSchedule>,
    /// When the next one will be due that is not yet; `None` if there is none.
    pub next_in: Option<Duration>,
}

/// What one schedule is to do now, as a calendar worked it out from a [`DueSchedule`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Firing {
    /// The schedule.
    pub name: String,
    /// The revision that the calendar saw.
    pub revision: i64,
    /// Everything until then is dealt with by this; at most the database's now.
    pub until: OffsetDateTime,
    /// The instants that become jobs, ascending: after `done_until`, at most `until`; at most [`limits::SCHEDULE_RUNS_MAX`].
    pub instants: Vec<OffsetDateTime>,
    /// The first instant after `until`; `None` if there is none.
    pub next_at: Option<OffsetDateTime>,
}

/// The answer to a firing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fired {
    /// It was carried out; the jobs in the order of their instants. An instant that has a job already gets no second one.
    Done(Vec<JobId>),
    /// The schedule is another one by now, somebody else fired, or is about to: nothing was done (rule K1).
    Already,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_as_they_are_written() {
        for missed in [Missed::Skip, Missed::Latest, Missed::All(7)] {
            assert_eq!(missed.to_string().parse::<Missed>().unwrap(), missed);
        }
        for text in ["", "all", "all:", "all:x", "all:-1", "skip:1", "first"] {
            assert!(text.parse::<Missed>().unwrap_err().message().contains("skip, latest, all:N"), "{text}");
        }
    }

    #[test]
    fn what_is_beyond_a_limit_is_refused_by_name() {
        let good = Schedule::new("s", "* * * * *", "q", "k");
        good.check().unwrap();
        let bad = [
            ("schedule", Schedule { name: "a\nb".into(), ..good.clone() }),
            ("cron", Schedule { cron: "x".repeat(201), ..good.clone() }),
            ("cron", Schedule { cron: String::new(), ..good.clone() }),
            ("zone", Schedule { zone: "x".repeat(101), ..good.clone() }),
            ("queue", Schedule { queue: String::new(), ..good.clone() }),
            ("kind", Schedule { kind: "x".repeat(201), ..good.clone() }),
            ("payload", Schedule { payload: "{".into(), ..good.clone() }),
            ("payload", Schedule { payload: format!("{:?}", "x".repeat(65_536)), ..good.clone() }),
            ("priority", Schedule { priority: 1001, ..good.clone() }),
            ("max_attempts", Schedule { max_attempts: Some(0), ..good.clone() }),
            ("max_run", Schedule { max_run: Some(Duration::ZERO), ..good.clone() }),
            ("unique_key", Schedule { unique_key: Some(String::new()), ..good.clone() }),
            ("all:101", Schedule { missed: Missed::All(101), ..good.clone() }),
        ];
        for (word, schedule) in bad {
            let error = schedule.check().unwrap_err();
            assert!(error.message().contains(word), "{word}: {error}");
        }
    }
}
