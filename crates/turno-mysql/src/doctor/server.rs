//! What the server's settings and sessions mean. It refuses to show the text of anybody's statement, which may hold secrets.

use mysql_async::Row;
use turno_contract::doctor::{
    Budget, Check, DoctorOptions, LOCK_WAIT_MAX, Session, connections, named, oldest_transaction,
};
use turno_contract::{Engine, ErrorKind, QueueStats, Result};

use crate::rows::{get, millis};

/// The oldest versions whose procedures this crate was tried on, or that have what they use.
const MYSQL_MIN: (u32, u32) = (8, 0);
const MARIADB_MIN: (u32, u32) = (10, 6);
/// Purge that lies this many transactions behind slows reading down.
const HISTORY_WARNING: i64 = 1_000_000;
const HISTORY_CRITICAL: i64 = 10_000_000;
/// What a batch of small jobs may have as one parameter, and what stands around a large one.
const BATCH_BYTES_MAX: i64 = 8 << 20;

pub(super) type Pairs = [(String, String)];

fn value<'a>(pairs: &'a Pairs, name: &str) -> Option<&'a str> {
    pairs.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
}

pub(super) fn number(pairs: &Pairs, name: &str) -> Option<i64> {
    value(pairs, name)?.parse().ok()
}

fn is_off(pairs: &Pairs, name: &str) -> bool {
    matches!(value(pairs, name), Some("OFF" | "0"))
}

fn version_of(text: &str) -> Option<(u32, u32)> {
    // MariaDB may call itself 5.5.5-10.11.2-MariaDB.
    let text = text.strip_prefix("5.5.5-").unwrap_or(text);
    let mut numbers = text.split(['.', '-']).map_while(|part| part.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

pub(super) fn server(engine: Engine, version: &str, settings: &Pairs) -> Check {
    let (name, min) = match engine {
        Engine::Mariadb => ("MariaDB", MARIADB_MIN),
        _ => ("MySQL", MYSQL_MIN),
    };
    if version_of(version).is_some_and(|version| version < min) {
        let found = format!("{name} {version}, older than turno knows");
        return Check::critical("server", found, format!("upgrade to {name} {}.{} or newer", min.0, min.1));
    }
    if !is_off(settings, "read_only") && value(settings, "read_only").is_some() {
        let found = format!("{name} {version}, read-only: a replica, most often");
        return Check::critical(
            "server",
            found,
            "give the address of the primary, or SET GLOBAL read_only = OFF",
        );
    }
    Check::ok("server", format!("{name} {version}, takes writes"))
}

pub(super) fn isolation(settings: &Pairs) -> Check {
    let level = value(settings, "transaction_isolation").or(value(settings, "tx_isolation")).unwrap_or("?");
    if !is_off(settings, "log_bin") && value(settings, "binlog_format") == Some("STATEMENT") {
        let found = "the binary log is written by statement, and refuses what is written at READ COMMITTED";
        return Check::critical(
            "isolation",
            found,
            "SET GLOBAL binlog_format = 'ROW' (or MIXED), also in the configuration",
        );
    }
    let found = format!("the default is {level}; turno's own transactions ask for READ COMMITTED");
    if level == "SERIALIZABLE" {
        let action = "take READ COMMITTED or REPEATABLE READ as the default: plain reads in your own transactions lock rows";
        return Check::warning("isolation", found, action);
    }
    Check::ok("isolation", found)
}

pub(super) fn durability(settings: &Pairs) -> Check {
    if is_off(settings, "innodb_doublewrite") {
        let action = "turn innodb_doublewrite on, unless the file system itself never tears a page";
        return Check::critical("durability", "innodb_doublewrite is off: a crash can damage tables", action);
    }
    let mut weak = Vec::new();
    let flush = number(settings, "innodb_flush_log_at_trx_commit").unwrap_or(1);
    if flush != 1 {
        weak.push(format!("innodb_flush_log_at_trx_commit is {flush}"));
    }
    let sync = number(settings, "sync_binlog").unwrap_or(1);
    if !is_off(settings, "log_bin") && sync != 1 {
        weak.push(format!("sync_binlog is {sync}"));
    }
    if weak.is_empty() {
        return Check::ok("durability", "each commit is on the disk before it is answered");
    }
    let action = "set both to 1; without it a crash of the machine loses the last second of accepted jobs and results, or lets \
                  replicas differ";
    Check::warning("durability", named(&weak), action)
}

pub(super) fn packet(settings: &Pairs, payload_bytes_max: usize) -> Check {
    let packet = number(settings, "max_allowed_packet").unwrap_or(i64::MAX);
    // In a batch each quote of a payload is escaped.
    let needed = BATCH_BYTES_MAX.max(2 * payload_bytes_max as i64 + (1 << 20));
    let found = format!("max_allowed_packet is {} KiB", packet >> 10);
    if packet >= needed {
        return Check::ok("packet", found);
    }
    let action = format!(
        "SET GLOBAL max_allowed_packet = {needed}, also in the configuration, or enqueue smaller payloads"
    );
    Check::warning("packet", format!("{found}, and {} KiB may be needed", needed >> 10), action)
}

pub(super) fn statistics(settings: &Pairs) -> Check {
    if is_off(settings, "innodb_stats_auto_recalc") {
        let action = "SET GLOBAL innodb_stats_auto_recalc = ON, or run ANALYZE TABLE on turno's tables when they have grown";
        return Check::warning("statistics", "innodb_stats_auto_recalc is off: statistics grow old", action);
    }
    Check::ok("statistics", "the server renews them by itself")
}

pub(super) fn budgets(settings: &Pairs, status: &Pairs, own: &Result<Row>) -> Check {
    let count = |pairs: &Pairs, name| number(pairs, name).unwrap_or(0).max(0) as u64;
    let mut budgets = vec![Budget {
        of: "the server".into(),
        used: count(status, "threads_connected"),
        max: count(settings, "max_connections"),
    }];
    let (max, own) = (count(settings, "max_user_connections"), own.as_ref().ok());
    if let (Some(used), true) = (own.and_then(|row| get::<i64>(row, "n").ok()), max > 0) {
        budgets.push(Budget { of: "this login".into(), used: used.max(0) as u64, max });
    }
    connections(&budgets)
}

pub(super) fn history(n: i64) -> Check {
    let found = format!("{n} transactions wait to be purged");
    let action = "see oldest_transaction first: while it is open nothing can be purged. Then more innodb_purge_threads";
    match n {
        HISTORY_CRITICAL.. => Check::critical("history", found, action),
        HISTORY_WARNING.. => Check::warning("history", found, action),
        _ => Check::ok("history", found),
    }
}

pub(super) fn transactions(rows: &[Row], options: &DoctorOptions) -> Check {
    let session = |row: &Row| -> Result<Session> {
        let (login, address, state): (String, String, String) =
            (get(row, "login")?, get(row, "address")?, get(row, "state")?);
        let who = format!("{login}, from {address}, {state}");
        Ok(Session { id: get(row, "id")?, who, age: millis(get(row, "age_ms")?) })
    };
    match rows.iter().map(session).collect::<Result<Vec<_>>>() {
        Ok(sessions) => oldest_transaction(&sessions, options, "KILL {id}", None),
        Err(error) => Check::unseen("oldest_transaction", &error, ""),
    }
}

/// Who holds a table is not told without the performance schema; that somebody does shows in a look that waited.
pub(super) fn locks(stats: &Result<Vec<QueueStats>>) -> Check {
    match stats {
        Err(error) if error.kind() == ErrorKind::Busy => {
            let found =
                format!("a look at the rows waited for longer than {LOCK_WAIT_MAX:?}: {}", error.message());
            let action = "find who holds turno's tables (LOCK TABLES, ALTER TABLE, a backup): SHOW PROCESSLIST, \
                          performance_schema.metadata_locks; then KILL it, or let it end";
            Check::warning("locks", found, action)
        }
        Err(error) => Check::unseen("locks", error, super::NEEDS_VIEWER),
        Ok(_) => Check::ok("locks", "nobody locks a whole table"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use turno_contract::doctor::CheckStatus;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn versions_of_both_servers_are_understood() {
        assert_eq!(version_of("10.11.14-MariaDB-0+deb12u2"), Some((10, 11)));
        assert_eq!(version_of("5.5.5-10.6.2-MariaDB"), Some((10, 6)));
        assert_eq!(version_of("9.7.4-2"), Some((9, 7)));
        let old = server(Engine::Mysql, "5.7.44", &pairs(&[("read_only", "OFF")]));
        assert_eq!(old.status, CheckStatus::Critical);
    }

    #[test]
    fn settings_that_only_a_restart_could_change_are_judged_here() {
        assert_eq!(durability(&pairs(&[("innodb_doublewrite", "OFF")])).status, CheckStatus::Critical);
        let lazy =
            pairs(&[("innodb_flush_log_at_trx_commit", "2"), ("log_bin", "OFF"), ("sync_binlog", "0")]);
        let check = durability(&lazy);
        assert!(check.status == CheckStatus::Warning && !check.found.contains("sync_binlog"), "{check:?}");
        let by_statement = pairs(&[("log_bin", "ON"), ("binlog_format", "STATEMENT")]);
        assert_eq!(isolation(&by_statement).status, CheckStatus::Critical);
        let replica = pairs(&[("read_only", "ON")]);
        assert_eq!(server(Engine::Mariadb, "10.11.1-MariaDB", &replica).status, CheckStatus::Critical);
        assert_eq!(history(2_000_000).status, CheckStatus::Warning);
        assert_eq!(history(20_000_000).status, CheckStatus::Critical);
        assert_eq!(statistics(&pairs(&[("innodb_stats_auto_recalc", "OFF")])).status, CheckStatus::Warning);
    }
}
