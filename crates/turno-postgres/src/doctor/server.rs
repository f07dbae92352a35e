//! What the server's settings and sessions mean. It refuses to show the text of anybody's statement, which may hold secrets.

use std::time::Duration;

use tokio_postgres::Row;
use turno_contract::Result;
use turno_contract::doctor::{
    Budget, Check, CheckStatus, DoctorOptions, Session, connections, named, oldest_transaction, show,
};

use super::Looker;
use crate::options::PostgresOptions;
use crate::rows::millis;

/// The oldest version whose catalogs and routines this crate was tried on.
const VERSION_MIN: i64 = 130_000;
/// A horizon that lies this many transactions back holds back too much.
const HELD_BACK_MAX: i64 = 1_000_000;
/// A slot may keep this much log before the disk is in danger.
const SLOT_LOG_BYTES_MAX: i64 = 10 << 30;
/// How often both sessions are asked which process answers.
const POOLER_ROUNDS: u32 = 4;

pub(super) fn server(facts: &Row) -> Check {
    let version: &str = facts.get("version");
    if facts.get::<_, i64>("version_num") < VERSION_MIN {
        let found = format!("PostgreSQL {version}, older than turno knows");
        return Check::critical("server", found, "upgrade the server to PostgreSQL 13 or newer");
    }
    if facts.get("is_standby") {
        let found = format!("PostgreSQL {version}, a standby: it takes no writes");
        return Check::critical(
            "server",
            found,
            "give the address of the primary, or target_session_attrs=read-write",
        );
    }
    if facts.get("is_read_only") {
        let found = format!("PostgreSQL {version}, read-only by default for this login or database");
        return Check::critical(
            "server",
            found,
            "ALTER ROLE or ALTER DATABASE ... RESET default_transaction_read_only",
        );
    }
    Check::ok("server", format!("PostgreSQL {version}, a primary"))
}

pub(super) fn isolation(facts: &Row) -> Check {
    let isolation: &str = facts.get("isolation");
    let found = format!("the default of this login is {isolation}");
    if isolation == "read committed" {
        return Check::ok("isolation", found);
    }
    let action = "this library asks for READ COMMITTED itself, at the cost of two more statements a call; callers in other languages \
                  must, too: ALTER ROLE ... SET default_transaction_isolation = 'read committed'";
    Check::warning("isolation", found, action)
}

pub(super) fn durability(settings: &[Row], tables: &Result<Vec<Row>>) -> Check {
    let value = |name: &str| {
        let row = settings.iter().find(|row| row.get::<_, &str>("name") == name);
        row.map_or("?", |row| row.get("setting"))
    };
    let off: Vec<String> = ["fsync", "full_page_writes"]
        .into_iter()
        .filter(|name| value(name) == "off")
        .map(|name| format!("{name} is off"))
        .collect();
    if !off.is_empty() {
        let action = "turn it on in postgresql.conf; without it a crash of the machine can damage every table of the server";
        return Check::critical("durability", named(&off), action);
    }
    let tables = tables.as_deref().unwrap_or_default();
    let unlogged = tables.iter().filter(|row| row.get::<_, bool>("is_unlogged"));
    let unlogged: Vec<String> = unlogged.map(|row| row.get("name")).collect();
    if !unlogged.is_empty() {
        let found = format!("unlogged tables, which are emptied after a crash: {}", named(&unlogged));
        return Check::critical("durability", found, "ALTER TABLE ... SET LOGGED");
    }
    let commit = value("synchronous_commit");
    if commit == "off" {
        let found = "synchronous_commit is off: the last accepted jobs and results can be lost in a crash";
        return Check::warning(
            "durability",
            found,
            "turn it on for turno's logins: ALTER ROLE ... SET synchronous_commit = on",
        );
    }
    Check::ok("durability", format!("fsync and full_page_writes are on, synchronous_commit is {commit}"))
}

fn who(row: &Row) -> String {
    let (login, application, state): (&str, &str, &str) =
        (row.get("login"), row.get("application"), row.get("state"));
    let application = if application.is_empty() { "no application name" } else { application };
    format!("{login}, {application}, from {}, {state}", row.get::<_, &str>("address"))
}

pub(super) fn transactions(rows: &[Row], options: &DoctorOptions, hidden: Option<&str>) -> Check {
    let sessions: Vec<Session> = rows
        .iter()
        .map(|row| Session { id: row.get("pid"), who: who(row), age: millis(row.get("age_ms")) })
        .collect();
    oldest_transaction(&sessions, options, "SELECT pg_terminate_backend({id})", hidden)
}

pub(super) fn prepared(rows: &[Row], options: &DoctorOptions) -> Check {
    let Some(row) = rows.first() else {
        return Check::ok("prepared_transactions", "there is none");
    };
    let (gid, login, age): (&str, &str, Duration) =
        (row.get("gid"), row.get("login"), millis(row.get("age_ms")));
    let found = format!("{} prepared, the oldest {gid:?} of {login} for {}", rows.len(), show(age));
    let action =
        format!("let the transaction manager end it, or: ROLLBACK PREPARED '{}'", gid.replace('\'', "''"));
    match options.of_open_for(age) {
        CheckStatus::Ok => Check::ok("prepared_transactions", found),
        status => Check::bad("prepared_transactions", status, found, action),
    }
}

pub(super) fn slots(rows: &[Row]) -> Check {
    let (mut names, mut status) = (Vec::new(), CheckStatus::Ok);
    for row in rows {
        let (is_active, log_bytes) = (row.get::<_, bool>("is_active"), row.get::<_, i64>("log_bytes"));
        let held_back: i64 = row.get::<_, Option<i64>>("held_back").unwrap_or(0);
        if is_active && held_back < HELD_BACK_MAX && log_bytes < SLOT_LOG_BYTES_MAX {
            continue;
        }
        let activity = if is_active { "active" } else { "inactive" };
        let (name, of_type): (&str, &str) = (row.get("name"), row.get("slot_type"));
        let megabytes = log_bytes >> 20;
        names.push(format!(
            "{name} ({of_type}, {activity}, keeps {megabytes} MiB of log and holds back {held_back} transactions)"
        ));
        let is_dangerous = log_bytes >= SLOT_LOG_BYTES_MAX || held_back >= HELD_BACK_MAX;
        let this = if is_dangerous && !is_active { CheckStatus::Critical } else { CheckStatus::Warning };
        status = status.max(this);
    }
    if names.is_empty() {
        return Check::ok("replication_slots", format!("{} slots, none inactive or far behind", rows.len()));
    }
    let action = "start what reads the slot, or remove it: SELECT pg_drop_replication_slot('NAME')";
    Check::bad("replication_slots", status, named(&names), action)
}

pub(super) fn standbys(rows: &[Row], hidden: Option<&str>) -> Check {
    let behind = rows.iter().filter(|row| row.get::<_, i64>("held_back") >= HELD_BACK_MAX);
    let names: Vec<String> = behind
        .map(|row| {
            let (name, address): (&str, &str) = (row.get("name"), row.get("address"));
            format!("{name} at {address} holds back {} transactions", row.get::<_, i64>("held_back"))
        })
        .collect();
    match (names.is_empty(), hidden) {
        (false, _) => {
            let action = "end the long queries there, or turn hot_standby_feedback off there";
            Check::warning("standby_feedback", named(&names), action)
        }
        (true, Some(needs)) => {
            Check::unknown("standby_feedback", "what standbys report is hidden from this login", needs)
        }
        (true, None) => {
            Check::ok("standby_feedback", format!("{} standbys report a horizon, none far back", rows.len()))
        }
    }
}

pub(super) fn budgets(row: &Row) -> Check {
    let count = |column: &str| row.get::<_, Option<i64>>(column).unwrap_or(0);
    let budget = |of: &str, used: &str, max: &str| {
        // A negative number is no limit.
        let max = u64::try_from(count(max)).ok()?;
        Some(Budget { of: of.into(), used: count(used).max(0) as u64, max })
    };
    let budgets: Vec<Budget> = [
        budget("the server", "used", "max"),
        budget("the database", "database_used", "database_max"),
        budget("this login", "login_used", "login_max"),
    ]
    .into_iter()
    .flatten()
    .collect();
    connections(&budgets)
}

/// Two sessions of one server are never answered by the same process, and one is always answered by the same; behind a pooler
/// in transaction mode a process goes to whoever asks next.
pub(super) async fn pooler(options: &PostgresOptions, looker: &Looker) -> Check {
    let pooled = match is_pooled(options, looker).await {
        Ok(pooled) => pooled,
        Err(error) => return Check::unseen("pooler", &error, ""),
    };
    if !pooled {
        return Check::ok("pooler", "sessions keep their server process: no pooler, or one in session mode");
    }
    let rings_through = options.listen.as_ref().is_some_and(|listen| {
        let (listen, target) = (&listen.config, &options.target.config);
        listen.get_hosts() == target.get_hosts() && listen.get_ports() == target.get_ports()
    });
    if rings_through {
        let found =
            "a pooler in transaction mode: sessions share server processes, and notifications do not arrive";
        let action = "workers poll, at most once a second. Give turno_listen=URL with an address that goes around the pooler, or \
                      turno_listen=off; and turno_prepared=off if it does not keep prepared statements (pgbouncer before 1.21)";
        return Check::warning("pooler", found, action);
    }
    let listen = if options.listen.is_some() { "goes around it" } else { "is off" };
    Check::ok("pooler", format!("a pooler in transaction mode; the doorbell {listen}"))
}

async fn is_pooled(options: &PostgresOptions, looker: &Looker) -> Result<bool> {
    let other = Looker::open(options, looker.look_max).await?;
    let first = looker.process().await?;
    for _ in 0..POOLER_ROUNDS {
        let (here, there) = (looker.process().await?, other.process().await?);
        if here != first || here == there {
            return Ok(true);
        }
    }
    Ok(false)
}
