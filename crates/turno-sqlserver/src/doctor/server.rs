//! What the server's settings and sessions mean. It refuses to show the text of anybody's statement, which may hold secrets.

use tiberius::Row;
use turno_contract::doctor::{
    Budget, Check, DoctorOptions, LOCK_WAIT_MAX, Session, connections, oldest_transaction,
};
use turno_contract::{ErrorKind, QueueStats, Result};

use crate::rows::{get, millis};

/// SQL Server 2016, and the level of its language that has what the procedures use.
const VERSION_MIN: u32 = 13;
const COMPATIBILITY_MIN: i64 = 130;

/// What one row about server and database says.
pub(super) fn of_facts(facts: &Row) -> Result<Vec<Check>> {
    Ok(vec![server(facts)?, isolation(facts)?, snapshot(facts)?, durability(facts)?, statistics(facts)?])
}

fn server(facts: &Row) -> Result<Check> {
    let (version, edition): (String, String) = (get(facts, "version")?, get(facts, "edition")?);
    // Azure counts its own versions.
    let is_azure = edition.contains("Azure");
    let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(u32::MAX);
    if major < VERSION_MIN && !is_azure {
        let found = format!("SQL Server {version} ({edition}), older than turno knows");
        return Ok(Check::critical("server", found, "upgrade to SQL Server 2016 SP1 or newer"));
    }
    let compatibility: i64 = get(facts, "compatibility")?;
    if compatibility < COMPATIBILITY_MIN {
        let found = format!("the database has compatibility level {compatibility}");
        return Ok(Check::critical(
            "server",
            found,
            "ALTER DATABASE ... SET COMPATIBILITY_LEVEL = 130 or higher",
        ));
    }
    let updateability: String = get(facts, "updateability")?;
    if updateability != "READ_WRITE" {
        let found = format!("SQL Server {version} ({edition}), and the database is {updateability}");
        return Ok(Check::critical(
            "server",
            found,
            "give the address of the primary, or set the database READ_WRITE",
        ));
    }
    Ok(Check::ok("server", format!("SQL Server {version} ({edition}), takes writes")))
}

fn isolation(_facts: &Row) -> Result<Check> {
    Ok(Check::ok("isolation", "sessions begin at READ COMMITTED, and each procedure asks for it"))
}

fn snapshot(facts: &Row) -> Result<Check> {
    let versioned: bool = get(facts, "is_read_committed_snapshot_on")?;
    let allowed: bool = get(facts, "is_snapshot_allowed")?;
    let on = |is_on| if is_on { "on" } else { "off" };
    let found =
        format!("READ_COMMITTED_SNAPSHOT is {}, ALLOW_SNAPSHOT_ISOLATION is {}", on(versioned), on(allowed));
    if versioned {
        return Ok(Check::ok("snapshot", found));
    }
    let action = "ALTER DATABASE ... SET READ_COMMITTED_SNAPSHOT ON when nobody is connected: listings and the audit then wait for no \
                  worker. Claims lock in the same way with both. turno needs no ALLOW_SNAPSHOT_ISOLATION";
    Ok(Check::warning("snapshot", found, action))
}

fn durability(facts: &Row) -> Result<Check> {
    if get::<i64>(facts, "delayed_durability")? == 2 {
        let found = "DELAYED_DURABILITY is FORCED: the last accepted jobs and results can be lost in a crash";
        return Ok(Check::warning(
            "durability",
            found,
            "ALTER DATABASE ... SET DELAYED_DURABILITY = ALLOWED or DISABLED",
        ));
    }
    if get::<i64>(facts, "page_verify")? != 2 {
        let found = "PAGE_VERIFY is not CHECKSUM: a page that was torn in a crash is not noticed";
        return Ok(Check::warning("durability", found, "ALTER DATABASE ... SET PAGE_VERIFY CHECKSUM"));
    }
    Ok(Check::ok("durability", "each commit is on the disk before it is answered"))
}

fn statistics(facts: &Row) -> Result<Check> {
    let (create, update): (bool, bool) =
        (get(facts, "is_auto_create_stats_on")?, get(facts, "is_auto_update_stats_on")?);
    if create && update {
        return Ok(Check::ok("statistics", "the server makes and renews them by itself"));
    }
    let action = "ALTER DATABASE ... SET AUTO_CREATE_STATISTICS ON, AUTO_UPDATE_STATISTICS ON";
    Ok(Check::warning("statistics", "the server does not make or renew them by itself", action))
}

pub(super) fn budgets(row: &Row) -> Check {
    let count = |column| get::<i64>(row, column).unwrap_or(0).max(0) as u64;
    connections(&[Budget { of: "the server".into(), used: count("used"), max: count("most") }])
}

pub(super) fn transactions(rows: &[Row], options: &DoctorOptions) -> Check {
    let session = |row: &Row| -> Result<Session> {
        let text = |column| get::<Option<String>>(row, column).map(Option::unwrap_or_default);
        let who = format!("{}, {:?}, from {}", text("login_name")?, text("application")?, text("address")?);
        Ok(Session { id: get(row, "id")?, who, age: millis(get(row, "age_ms")?) })
    };
    match rows.iter().map(session).collect::<Result<Vec<_>>>() {
        Ok(sessions) => oldest_transaction(&sessions, options, "KILL {id}", None),
        Err(error) => Check::unseen("oldest_transaction", &error, ""),
    }
}

/// That somebody holds a table shows in a look that waited.
pub(super) fn locks(stats: &Result<Vec<QueueStats>>) -> Check {
    match stats {
        Err(error) if error.kind() == ErrorKind::Busy => {
            let found =
                format!("a look at the rows waited for longer than {LOCK_WAIT_MAX:?}: {}", error.message());
            let action =
                "find who holds turno's tables in sys.dm_tran_locks; then KILL the session, or let it end";
            Check::warning("locks", found, action)
        }
        Err(error) => Check::unseen("locks", error, super::NEEDS_VIEWER),
        Ok(_) => Check::ok("locks", "nobody locks a whole table"),
    }
}
