//! What the server's statistics of turno's tables mean: dead rows, vacuum, statistics of the planner, locks. It refuses to
//! count any rows; the server's own estimates have to do.

use std::time::Duration;

use tokio_postgres::Row;
use turno_contract::Result;
use turno_contract::doctor::{Check, CheckStatus, NAMED_MAX, named, show};

use crate::rows::millis;

/// Tables with more rows than this have statistics, or nobody has ever looked.
const ROWS_WITHOUT_STATISTICS_MAX: i64 = 10_000;
/// Ten times what makes autovacuum begin, by the schema's own settings.
const DEAD_ROWS_STARVED: i64 = 50_000;
const DEAD_ROWS_CRITICAL: i64 = 1_000_000;
/// A table with that many dead rows should have been vacuumed within this.
const VACUUM_AGE_MAX: Duration = Duration::from_secs(600);
/// How long a lock on a whole table may last before it is more than a migration.
const LOCK_LONG: Duration = Duration::from_secs(60);

const SEE_HORIZON: &str = "see oldest_transaction, prepared_transactions, replication_slots and standby_feedback first: while one of them \
                           holds on, vacuum removes nothing. Then VACUUM the table";

fn dead_of(row: &Row) -> i64 {
    row.get::<_, Option<i64>>("dead").unwrap_or(0)
}

pub(super) fn statistics(rows: &[Row]) -> Check {
    let never = rows.iter().filter(|row| {
        let live = row.get::<_, Option<i64>>("live").unwrap_or(0);
        row.get::<_, bool>("is_never_analyzed")
            && row.get::<_, i64>("row_guess") <= 0
            && live > ROWS_WITHOUT_STATISTICS_MAX
    });
    let names: Vec<String> = never.map(|row| row.get("name")).collect();
    if names.is_empty() {
        return Check::ok("statistics", "every table that has grown has statistics");
    }
    let found = format!("never analyzed, although they have grown: {}", named(&names));
    Check::warning(
        "statistics",
        found,
        "ANALYZE them, and see the check `vacuum`: autovacuum should have done it",
    )
}

pub(super) fn dead_rows(rows: &[Row]) -> Check {
    let Some(job) = rows.iter().find(|row| row.get::<_, &str>("name") == "job") else {
        return Check::ok("dead_rows", "there is no table of jobs yet");
    };
    let (live, dead) = (job.get::<_, Option<i64>>("live").unwrap_or(0), dead_of(job));
    let share = dead * 100 / (live + dead).max(1);
    let found = format!("about {dead} dead and {live} live rows in the table of jobs ({share} % dead)");
    match (dead, share) {
        (DEAD_ROWS_CRITICAL.., 50..) => Check::critical("dead_rows", found, SEE_HORIZON),
        (DEAD_ROWS_STARVED.., 50..) => Check::warning("dead_rows", found, SEE_HORIZON),
        _ => Check::ok("dead_rows", found),
    }
}

pub(super) fn vacuum(settings: &[Row], tables: &Result<Vec<Row>>) -> Check {
    let is_off = |name: &&str| {
        settings
            .iter()
            .any(|row| row.get::<_, &str>("name") == *name && row.get::<_, &str>("setting") == "off")
    };
    let off: Vec<String> = ["autovacuum", "track_counts"]
        .into_iter()
        .filter(is_off)
        .map(|name| format!("{name} is off"))
        .collect();
    if !off.is_empty() {
        let action =
            "turn it on in postgresql.conf and reload; a queue without autovacuum slows down within hours";
        return Check::critical("vacuum", format!("for the whole server: {}", named(&off)), action);
    }
    let tables = match tables {
        Ok(tables) => tables,
        Err(error) => return Check::unseen("vacuum", error, ""),
    };
    let is_disabled = |row: &&Row| {
        let options: &str = row.get("options");
        ["off", "false", "0", "no"]
            .iter()
            .any(|off| options.split(' ').any(|option| option == format!("autovacuum_enabled={off}")))
    };
    let disabled: Vec<String> = tables.iter().filter(is_disabled).map(|row| row.get("name")).collect();
    if !disabled.is_empty() {
        let found = format!("autovacuum is turned off for {}", named(&disabled));
        return Check::critical("vacuum", found, "ALTER TABLE ... RESET (autovacuum_enabled)");
    }
    let starved = tables.iter().filter(|row| {
        let age = row.get::<_, Option<i64>>("vacuum_age_ms").map(millis);
        dead_of(row) > DEAD_ROWS_STARVED && age.is_none_or(|age| age > VACUUM_AGE_MAX)
    });
    let starved: Vec<String> = starved
        .map(|row| {
            let age = row.get::<_, Option<i64>>("vacuum_age_ms").map(millis);
            let last = age.map_or("never".to_owned(), |age| format!("{} ago", show(age)));
            format!("{} ({} dead rows, last vacuumed {last})", row.get::<_, &str>("name"), dead_of(row))
        })
        .collect();
    if starved.is_empty() {
        return Check::ok("vacuum", "autovacuum is on and keeps up");
    }
    let action = "VACUUM these tables now; then more autovacuum_max_workers, or a lower autovacuum_vacuum_cost_delay: other tables keep \
                  all of them busy";
    Check::warning("vacuum", format!("autovacuum does not come round: {}", named(&starved)), action)
}

pub(super) fn locks(rows: &[Row]) -> Check {
    let mut status = CheckStatus::Ok;
    let mut names = Vec::new();
    for row in rows {
        let age = row.get::<_, Option<i64>>("age_ms").map(millis);
        let is_long = age.is_some_and(|age| age > LOCK_LONG);
        status = status.max(if is_long { CheckStatus::Critical } else { CheckStatus::Warning });
        let (pid, login, application): (i64, &str, &str) =
            (row.get("pid"), row.get("login"), row.get("application"));
        let (table, mode): (&str, &str) = (row.get("table_name"), row.get("mode"));
        let since = age.map_or("for an unknown time".to_owned(), |age| format!("for {}", show(age)));
        names.push(format!("session {pid} ({login} {application:?}) holds {mode} on {table}, {since}"));
    }
    if names.is_empty() {
        return Check::ok("locks", "nobody locks a whole table");
    }
    names.truncate(NAMED_MAX);
    let action = "let it end if it is a migration or an index that is being built; else SELECT pg_terminate_backend(PID)";
    Check::bad("locks", status, named(&names), action)
}
