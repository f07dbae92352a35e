//! What every server has: a clock, a number of connections, transactions that stay open. It refuses to know any catalog.

use std::time::Duration;

use super::{Check, CheckStatus, DoctorOptions, show};

/// How far two clocks may stand apart before instants mean something else.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(1);
/// How far before jobs run hours early or late.
const CLOCK_SKEW_VERY_LARGE: Duration = Duration::from_secs(60);
/// Of all connections, how many percent may be used.
const CONNECTIONS_WARNING: u64 = 80;
const CONNECTIONS_CRITICAL: u64 = 95;

/// The database's clock against this machine's, measured over one question and answer.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// How far the database's clock is ahead, in microseconds, if the answer took as long as the question.
    pub ahead_us: i64,
    /// How long both took together; half of it is how wrong the measurement can be.
    pub round_trip: Duration,
}

impl Clock {
    /// From this machine's instants before and after, and the database's between them, in microseconds since 1970.
    pub fn measured(before_us: i64, database_us: i64, after_us: i64) -> Self {
        let round_trip_us = (after_us - before_us).max(0);
        Clock {
            ahead_us: database_us - before_us - round_trip_us / 2,
            round_trip: Duration::from_micros(round_trip_us as u64),
        }
    }
}

/// Whether the two clocks agree. The measurement with the shortest round trip counts.
pub fn clock(measured: &[Clock]) -> Check {
    let Some(best) = measured.iter().min_by_key(|clock| clock.round_trip) else {
        return Check::unknown("clock", "nothing was measured", "look again");
    };
    let (bound, skew) = (best.round_trip / 2, Duration::from_micros(best.ahead_us.unsigned_abs()));
    let direction = if best.ahead_us < 0 { "behind" } else { "ahead of" };
    let found = format!(
        "the database's clock is {:.1} ms {direction} this machine's, give or take {:.1} ms",
        skew.as_secs_f64() * 1000.0,
        bound.as_secs_f64() * 1000.0
    );
    // Only what is certain counts.
    let certain = skew.saturating_sub(bound);
    let action =
        "let a time service (chrony, systemd-timesyncd) keep both machines; give delays rather than instants";
    match certain {
        certain if certain > CLOCK_SKEW_VERY_LARGE => Check::critical("clock", found, action),
        certain if certain > CLOCK_SKEW_MAX => Check::warning("clock", found, action),
        _ => Check::ok("clock", found),
    }
}

/// How many connections there are and may be.
#[derive(Debug, Clone)]
pub struct Budget {
    /// Whose limit it is: `the server`, `the login app`.
    pub of: String,
    /// Connections now.
    pub used: u64,
    /// Connections at most, without those that are reserved for administrators.
    pub max: u64,
}

/// Whether connections are left. Of several limits the tightest counts.
pub fn connections(budgets: &[Budget]) -> Check {
    let percent = |budget: &Budget| budget.used * 100 / budget.max.max(1);
    let Some(tightest) = budgets.iter().max_by_key(|budget| percent(budget)) else {
        return Check::ok("connections", "nothing limits them");
    };
    let (of, used, max) = (&tightest.of, tightest.used, tightest.max);
    let found = format!("{used} of {max} connections of {of} are in use ({} %)", percent(tightest));
    let action = "find who holds them (idle pools, most often) and give each a smaller pool, put a pooler in between, or raise the \
                  limit. A process of turno takes at most three, `turno serve` twice as many";
    match percent(tightest) {
        CONNECTIONS_CRITICAL.. => Check::critical("connections", found, action),
        CONNECTIONS_WARNING.. => Check::warning("connections", found, action),
        _ => Check::ok("connections", found),
    }
}

/// Somebody's session with an open transaction.
#[derive(Debug, Clone)]
pub struct Session {
    /// Its number at the server.
    pub id: i64,
    /// Whose it is, and what it is doing, in words. Never the text of a statement, which may hold secrets.
    pub who: String,
    /// How old its transaction is.
    pub age: Duration,
}

/// Whether somebody holds a transaction open for long. `end` says how to end a session; `hidden` says which right is
/// missing to see those of others.
pub fn oldest_transaction(
    sessions: &[Session],
    options: &DoctorOptions,
    end: &str,
    hidden: Option<&str>,
) -> Check {
    let oldest = sessions.iter().max_by_key(|session| session.age);
    let text = |session: &Session| {
        format!(
            "session {} ({}) has had a transaction open for {}",
            session.id,
            session.who,
            show(session.age)
        )
    };
    let status = oldest.map_or(CheckStatus::Ok, |oldest| options.of_open_for(oldest.age));
    if let (Some(oldest), CheckStatus::Warning | CheckStatus::Critical) = (oldest, status) {
        let others = sessions.iter().filter(|session| session.age >= options.long_transaction).count() - 1;
        let found = match others {
            0 => text(oldest),
            others => format!("{}, and {others} more for long", text(oldest)),
        };
        let action =
            format!("let its owner end it, or end it: {}", end.replace("{id}", &oldest.id.to_string()));
        return Check::bad("oldest_transaction", status, found, action);
    }
    if let Some(needs) = hidden {
        let found = "the transactions of other logins are hidden from this one";
        return Check::unknown("oldest_transaction", found, needs);
    }
    match oldest {
        None => Check::ok("oldest_transaction", "nobody holds a transaction open"),
        Some(oldest) => Check::ok("oldest_transaction", text(oldest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_the_round_trip_is_the_error_bound_of_the_clock() {
        let exact = Clock::measured(1_000_000, 1_500_000, 2_000_000);
        assert_eq!((exact.ahead_us, exact.round_trip), (0, Duration::from_secs(1)));
        // 1.5 s ahead, but the question and the answer took 2 s: that is no proof.
        let slow = Clock::measured(0, 2_500_000, 2_000_000);
        assert_eq!(clock(&[slow]).status, CheckStatus::Ok);
        let quick = Clock::measured(0, 1_510_000, 20_000);
        assert_eq!(clock(&[slow, quick]).status, CheckStatus::Warning);
        let far = Clock::measured(0, -3_600_000_000, 20_000);
        assert_eq!(clock(&[far]).status, CheckStatus::Critical);
        assert!(clock(&[far]).found.contains("behind"));
    }

    #[test]
    fn the_tightest_limit_of_connections_counts() {
        let of = |of: &str, used, max| Budget { of: of.into(), used, max };
        assert_eq!(connections(&[of("the server", 10, 100)]).status, CheckStatus::Ok);
        let check = connections(&[of("the server", 10, 100), of("the login app", 4, 5)]);
        assert_eq!(check.status, CheckStatus::Warning);
        assert!(check.found.contains("4 of 5 connections of the login app"), "{}", check.found);
        assert_eq!(connections(&[of("the server", 97, 97)]).status, CheckStatus::Critical);
    }

    #[test]
    fn an_old_transaction_is_found_even_if_others_are_hidden() {
        let session =
            |minutes: u64| Session { id: 7, who: "ada, psql".into(), age: Duration::from_secs(minutes * 60) };
        let (end, options) = ("SELECT pg_terminate_backend({id})", DoctorOptions::default());
        assert_eq!(oldest_transaction(&[session(1)], &options, end, None).status, CheckStatus::Ok);
        assert_eq!(
            oldest_transaction(&[session(1)], &options, end, Some("grant")).status,
            CheckStatus::Unknown
        );
        let check = oldest_transaction(&[session(1), session(30)], &options, end, Some("grant"));
        assert_eq!(check.status, CheckStatus::Warning);
        assert!(check.action.unwrap().contains("pg_terminate_backend(7)"));
        assert_eq!(oldest_transaction(&[session(90)], &options, end, None).status, CheckStatus::Critical);
    }
}
