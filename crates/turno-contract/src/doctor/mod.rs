//! What `turno doctor` answers: one check for each thing that can be wrong around a queue, with what it means and what
//! to do. The backends look, each with its own engine's catalogs; what is the same on every engine is judged here, so that a
//! limit and a word stand in one place. It refuses to look itself, and to let one look that fails spoil the others.

use std::time::Duration;

use serde::Serialize;

use crate::{Error, ErrorKind};

mod queues;
mod schema;
mod server;

pub use queues::{audit, kinds, leases, paused, schedules, workers};
pub use schema::{
    Difference, Index, Right, difference, drift, expected_rights, grants, indexes, login, of_newer_release,
    same_statement, statement,
};
pub use server::{Budget, Clock, Session, clock, connections, oldest_transaction};

/// How long a look waits for a lock that somebody holds.
pub const LOCK_WAIT_MAX: Duration = Duration::from_secs(1);
/// Most things that one check names; the others are only counted.
pub const NAMED_MAX: usize = 5;

/// Every check there is, and why it is looked at. An engine leaves out what it does not have.
pub const CHECKS: &[(&str, &str)] = &[
    ("connect", "without a connection nothing else can be said, and no worker works"),
    ("server", "turno needs a version that it knows, on a server that takes writes"),
    ("schema", "a program and a schema that do not fit refuse to work with each other"),
    (
        "drift",
        "what stands in the database should be what this program would install: other code keeps other rules",
    ),
    ("indexes", "without its indexes a claim reads the whole backlog, and keys are not unique"),
    ("grants", "a role without its rights cannot do its work; one with more can do what only others should"),
    ("login", "this login can do only what the roles that it is a member of may do"),
    ("definer", "routines run with the rights of the account that made them, and fail without it"),
    ("isolation", "claims need READ COMMITTED"),
    (
        "durability",
        "a job that was accepted, and a result that was recorded, should survive a crash of the machine",
    ),
    ("packet", "a payload that is larger than a packet cannot be sent"),
    ("sql_mode", "without strict mode the server cuts and rounds in silence"),
    ("snapshot", "with versioned reads, those who look do not stand in the way of those who work"),
    ("journal", "the write-ahead log lets readers and the writer work beside each other"),
    ("file_system", "the write-ahead log needs memory that all programs share: a local file system"),
    ("disk", "on a full disk nothing can be enqueued, claimed or finished"),
    ("log", "a log that cannot be emptied grows, and slows down every reader"),
    (
        "pooler",
        "a pooler in transaction mode passes neither notifications nor, if it is old, prepared statements",
    ),
    ("connections", "when the server's connections run out, workers cannot come back after a fault"),
    ("clock", "instants that come from this machine's clock (run_at) mean something else to the database"),
    ("locks", "who locks a whole table stops every claim, enqueue and result until the transaction ends"),
    (
        "statistics",
        "a planner without statistics guesses; the claim's plan is pinned, those of listings are not",
    ),
    (
        "vacuum",
        "a queue makes a dead row version for each step of a job; if nobody removes them, claims slow down",
    ),
    ("dead_rows", "every claim walks over the dead versions in front of the first live job"),
    (
        "oldest_transaction",
        "what became dead since the oldest transaction began cannot be removed, whoever holds it open",
    ),
    (
        "prepared_transactions",
        "a forgotten prepared transaction holds back the removal of dead rows for ever",
    ),
    (
        "replication_slots",
        "a slot that nobody reads holds back the removal of dead rows, and keeps the log until the disk is full",
    ),
    (
        "standby_feedback",
        "a standby with long queries holds back the removal of dead rows here, if it reports them",
    ),
    ("history", "every reader walks through the history of changes that could not be purged yet"),
    ("leases", "a lease that has ended waits for a reaper; every worker is one"),
    ("workers", "due jobs wait for ever if no worker serves their queue"),
    ("kinds", "a job whose kind no handler knows is given back again and again"),
    ("paused", "a paused queue gives no jobs until somebody resumes it"),
    ("schedules", "a schedule that is due and not fired makes no jobs; it stays due until somebody fires it"),
    ("audit", "a row that no rule reaches stays as it is for ever"),
];

/// What the doctor takes for long. What is long depends on what else the database is for.
#[derive(Debug, Clone)]
pub struct DoctorOptions {
    /// A transaction that is open for this long is a warning, and twelve times as long is critical.
    pub long_transaction: Duration,
    /// A due job that has waited for this long waits for a worker.
    pub long_wait: Duration,
    /// A queue with waiting jobs that has been paused for this long was forgotten.
    pub long_pause: Duration,
    /// How long one look may take before it is given up as unknown.
    pub look_max: Duration,
}

impl Default for DoctorOptions {
    fn default() -> Self {
        DoctorOptions {
            long_transaction: Duration::from_secs(300),
            long_wait: Duration::from_secs(60),
            long_pause: Duration::from_secs(3600),
            look_max: Duration::from_secs(5),
        }
    }
}

impl DoctorOptions {
    /// How serious it is that something has been open for this long.
    pub fn of_open_for(&self, age: Duration) -> CheckStatus {
        match age {
            age if age >= self.long_transaction.saturating_mul(12) => CheckStatus::Critical,
            age if age >= self.long_transaction => CheckStatus::Warning,
            _ => CheckStatus::Ok,
        }
    }
}

/// How serious the answer of a check is, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckStatus {
    /// All is well.
    Ok,
    /// It could not be looked at: a missing right, or the database was too busy.
    Unknown,
    /// It works, and will not if nobody does anything.
    Warning,
    /// Something does not work, or data can be lost.
    Critical,
}

impl CheckStatus {
    /// The word, as it is printed.
    pub fn as_str(self) -> &'static str {
        match self {
            CheckStatus::Ok => "ok",
            CheckStatus::Unknown => "unknown",
            CheckStatus::Warning => "warning",
            CheckStatus::Critical => "critical",
        }
    }
}

/// The answer of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its stable name, one of [`CHECKS`].
    pub id: &'static str,
    /// How serious it is.
    pub status: CheckStatus,
    /// What was found, or why it could not be looked at.
    pub found: String,
    /// What that means.
    pub meaning: String,
    /// What to do about it; `None` if nothing is to be done.
    pub action: Option<String>,
}

impl Check {
    /// All is well.
    pub fn ok(id: &'static str, found: impl Into<String>) -> Self {
        Check { id, status: CheckStatus::Ok, found: found.into(), meaning: meaning_of(id), action: None }
    }

    /// It could not be looked at; the action says which right is missing.
    pub fn unknown(id: &'static str, found: impl Into<String>, action: impl Into<String>) -> Self {
        Check::bad(id, CheckStatus::Unknown, found, action)
    }

    /// It works for now.
    pub fn warning(id: &'static str, found: impl Into<String>, action: impl Into<String>) -> Self {
        Check::bad(id, CheckStatus::Warning, found, action)
    }

    /// It does not work, or data can be lost.
    pub fn critical(id: &'static str, found: impl Into<String>, action: impl Into<String>) -> Self {
        Check::bad(id, CheckStatus::Critical, found, action)
    }

    /// A warning or something critical, whichever this is.
    pub fn bad(
        id: &'static str,
        status: CheckStatus,
        found: impl Into<String>,
        action: impl Into<String>,
    ) -> Self {
        let action = Some(action.into());
        Check { id, status, found: found.into(), meaning: meaning_of(id), action }
    }

    /// A look that failed. `needs` says what right it takes.
    pub fn unseen(id: &'static str, error: &Error, needs: &str) -> Self {
        match error.kind() {
            ErrorKind::PermissionDenied => {
                Check::unknown(id, format!("not permitted to look: {}", error.message()), needs)
            }
            ErrorKind::Busy => Check::unknown(
                id,
                format!("could not look in time: {}", error.message()),
                "look again when the database is less busy, or for longer (--look-max); see the check `locks`",
            ),
            _ => Check::unknown(
                id,
                format!("could not look: {}", error.message()),
                "see the other checks; if they are well, this is worth a report",
            ),
        }
    }

    /// The same check with a meaning of its own.
    pub fn meaning(mut self, meaning: impl Into<String>) -> Self {
        self.meaning = meaning.into();
        self
    }
}

/// The checks in the order of [`CHECKS`]: what the others stand on comes first.
pub fn in_order(mut checks: Vec<Check>) -> Vec<Check> {
    let place = |check: &Check| CHECKS.iter().position(|(id, _)| *id == check.id);
    checks.sort_by_key(place);
    checks
}

/// The worst status of all; `Ok` if there are none.
pub fn worst(checks: &[Check]) -> CheckStatus {
    checks.iter().map(|check| check.status).max().unwrap_or(CheckStatus::Ok)
}

/// The look's answer, or the check that says why there is none.
pub fn look<T>(
    id: &'static str,
    answer: &crate::Result<T>,
    needs: &str,
    judge: impl FnOnce(&T) -> Check,
) -> Check {
    match answer {
        Ok(facts) => judge(facts),
        Err(error) => Check::unseen(id, error, needs),
    }
}

/// The first few names, and how many more there are.
pub fn named(names: &[String]) -> String {
    let shown = names.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// A duration for people: `3 h 20 min`, `45 s`, `120 ms`.
pub fn show(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        1..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn meaning_of(id: &str) -> String {
    let found = CHECKS.iter().find(|(known, _)| *known == id);
    found.map_or_else(String::new, |(_, meaning)| (*meaning).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_have_each_a_name_and_a_meaning_of_their_own() {
        for (n, (id, meaning)) in CHECKS.iter().enumerate() {
            assert!(!meaning.is_empty() && id.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{id}");
            assert!(CHECKS[..n].iter().all(|(other, _)| other != id), "{id} stands there twice");
        }
    }

    #[test]
    fn the_worst_check_decides_and_not_being_able_to_look_is_no_alarm() {
        let ok = Check::ok("clock", "");
        let unknown = Check::unknown("clock", "", "");
        let warning = Check::warning("clock", "", "");
        let critical = Check::critical("clock", "", "");
        assert_eq!(worst(&[]), CheckStatus::Ok);
        assert_eq!(worst(&[ok.clone(), unknown.clone()]), CheckStatus::Unknown);
        assert_eq!(worst(&[unknown.clone(), warning.clone(), ok]), CheckStatus::Warning);
        assert_eq!(worst(&[critical, warning, unknown]), CheckStatus::Critical);
    }

    #[test]
    fn a_missing_right_is_named_and_is_no_error() {
        let error = Error::new(ErrorKind::PermissionDenied, "no");
        let check = Check::unseen("history", &error, "GRANT PROCESS");
        assert_eq!((check.status, check.action.as_deref()), (CheckStatus::Unknown, Some("GRANT PROCESS")));
        assert!(check.found.contains("not permitted"));
    }

    #[test]
    fn durations_are_short() {
        let table = [(5, "5 s"), (119, "119 s"), (120, "2 min"), (7260, "2 h 1 min"), (200_000, "2 days")];
        for (seconds, text) in table {
            assert_eq!(show(Duration::from_secs(seconds)), text);
        }
        assert_eq!(show(Duration::from_millis(7)), "7 ms");
    }
}
