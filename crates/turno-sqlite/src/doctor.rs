//! `doctor`: looks at the file, its file system and its rows, on a connection and a thread of its own. It refuses to change
//! anything, and to wait for longer than a look may take.

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use rusqlite::Connection;
use time::OffsetDateTime;
use tokio::sync::oneshot;
use turno_contract::doctor::{
    self, Check, Difference, DoctorOptions, Index, LOCK_WAIT_MAX, audit, drift, in_order, kinds, leases,
    look, of_newer_release, paused, same_statement, statement, workers,
};
use turno_contract::{Error, ErrorKind, QueueStats, Result};

use crate::connection::{self, Purpose, Space};
use crate::error::of_engine;
use crate::migrate;
use crate::operations::{self, queues, stats};
use crate::options::Place;
use crate::statements::SCHEMA;
use crate::work::Work;

const STATEMENTS: &str = include_str!("../sql/doctor.sql");
const WINDOW: Duration = Duration::from_secs(300);
/// Most queues that are asked for kinds which nobody handles.
const QUEUES_MAX: usize = 100;
/// The log is emptied every 1,000 pages; one of this many that cannot be emptied is held back.
const LOG_PAGES_MAX: i64 = 10_000;
const FREE_BYTES_WARNING: u64 = 1 << 30;
const FREE_BYTES_CRITICAL: u64 = 128 << 20;

/// Every check of this engine. `was_wal` is the journal mode in which the file was found before it was opened.
pub(crate) async fn doctor(place: Place, was_wal: Option<bool>, options: DoctorOptions) -> Vec<Check> {
    let (sender, receiver) = oneshot::channel();
    let body = move || drop(sender.send(examine(&place, was_wal, &options)));
    let started = std::thread::Builder::new().name("turno-sqlite-doctor".into()).spawn(body);
    match (started, receiver.await) {
        (Ok(_), Ok(checks)) => checks,
        (started, _) => {
            let reason = started.err().map_or("the look panicked".into(), |error| error.to_string());
            vec![Check::unknown("connect", reason, "this is worth a report")]
        }
    }
}

fn examine(place: &Place, was_wal: Option<bool>, options: &DoctorOptions) -> Vec<Check> {
    let Place::File(path) = place else {
        let found = "a database in memory is seen by its own connection only";
        return vec![Check::unknown("connect", found, "give the path of a file")];
    };
    let mut checks = vec![file_system(path), disk(path)];
    if !path.exists() {
        let found = format!("there is no file {}", path.display());
        checks.push(Check::critical("schema", found, "run `turno migrate`, or give another path"));
        return in_order(checks);
    }
    let connection = match connection::open(place, Purpose::Read, false) {
        Ok(connection) => connection,
        Err(error) => {
            let action = "mend the path or the rights of the file; nothing else can be looked at before";
            checks.push(Check::critical("connect", error.message(), action));
            return in_order(checks);
        }
    };
    // Cannot fail: the connection is open.
    let _ = connection.busy_timeout(LOCK_WAIT_MAX);
    checks.extend([server(&connection), durability(&connection)]);
    checks.extend([journal(&connection, was_wal), log(&connection), locks(&connection)]);
    installation(&connection, options, &mut checks);
    in_order(checks)
}

fn text_of(connection: &Connection, name: &str) -> Result<String> {
    connection.query_row(statement(STATEMENTS, name), [], |row| row.get(0)).map_err(of_engine)
}

fn server(connection: &Connection) -> Check {
    look("server", &text_of(connection, "version"), "", |version| {
        Check::ok("server", format!("SQLite {version}, part of this program"))
    })
}

fn durability(connection: &Connection) -> Check {
    let level: rusqlite::Result<i64> = connection.query_row("PRAGMA synchronous", [], |row| row.get(0));
    look("durability", &level.map_err(of_engine), "", |level| match level {
        2.. => {
            let found = "this program has each commit on the disk (synchronous = FULL); other programs choose for themselves";
            Check::ok("durability", found)
        }
        _ => Check::critical("durability", format!("synchronous is {level}"), "this is worth a report"),
    })
}

/// The file's mode is in its header; opening it has switched it since.
fn journal(connection: &Connection, was_wal: Option<bool>) -> Check {
    look("journal", &text_of(connection, "journal"), "", |mode| {
        if mode != "wal" {
            let action =
                "close the program that holds the file in another mode; turno switches it when it opens it";
            return Check::critical("journal", format!("the journal mode is {mode}"), action);
        }
        if was_wal == Some(false) {
            let found = "the file was found in a rollback journal's mode; this program has switched it to the write-ahead log";
            let action = "find the program that switches it back (PRAGMA journal_mode = DELETE), or the backup that it was restored \
                          from; run the doctor again to see whether it stays";
            return Check::warning("journal", found, action);
        }
        Check::ok("journal", "the write-ahead log is on")
    })
}

fn log(connection: &Connection) -> Check {
    let moved: rusqlite::Result<(i64, i64)> =
        connection.query_row(statement(STATEMENTS, "log"), [], |row| Ok((row.get(1)?, row.get(2)?)));
    look("log", &moved.map_err(of_engine), "", |(pages, moved)| {
        let found = format!("{pages} pages in the log, {moved} of them are in the database, too");
        if *pages < LOG_PAGES_MAX || moved >= pages {
            return Check::ok("log", found);
        }
        let action = "find the program with an open read transaction (a query whose rows nobody has read to the end) and end it";
        Check::warning("log", format!("a reader holds the log back: {found}"), action)
    })
}

fn locks(connection: &Connection) -> Check {
    let begun = connection.execute_batch(statement(STATEMENTS, "write"));
    if begun.is_ok() {
        // What was begun has written nothing.
        let _ = connection.execute_batch("ROLLBACK");
    }
    match begun.map_err(of_engine) {
        Ok(()) => Check::ok("locks", "the right to write is free"),
        Err(error) if error.kind() == ErrorKind::Busy => {
            let found =
                format!("another program has held the right to write for longer than {LOCK_WAIT_MAX:?}");
            let action = "find the program with an open write transaction (lsof on the file) and let it commit; nobody else can enqueue, \
                          claim or finish meanwhile";
            Check::warning("locks", found, action)
        }
        Err(error) => {
            Check::unseen("locks", &error, "give this login the right to write the file and its folder")
        }
    }
}

fn file_system(path: &Path) -> Check {
    match connection::space(path) {
        Err(error) => Check::unseen("file_system", &error, "let this login see the folder"),
        Ok(Space { network: Some(name), .. }) => {
            let found = format!("the file lies on a network file system ({name})");
            Check::critical(
                "file_system",
                found,
                "move it to a local disk; every program that uses it must run on that machine",
            )
        }
        Ok(_) => Check::ok("file_system", "the file lies on a local file system"),
    }
}

fn disk(path: &Path) -> Check {
    look("disk", &connection::space(path), "let this login see the folder", |space| free(space.free_bytes))
}

fn free(bytes: Option<u64>) -> Check {
    let Some(bytes) = bytes else {
        return Check::unknown("disk", "this system does not say how much is free", "look with df");
    };
    let found = format!("{} MiB are free on the disk", bytes >> 20);
    let action =
        "make room: turno prune removes records whose time is over, and VACUUM gives their space back";
    match bytes {
        bytes if bytes < FREE_BYTES_CRITICAL => Check::critical("disk", found, action),
        bytes if bytes < FREE_BYTES_WARNING => Check::warning("disk", found, action),
        _ => Check::ok("disk", found),
    }
}

/// The schema and the rows, each look within its time.
fn installation(connection: &Connection, options: &DoctorOptions, checks: &mut Vec<Check>) {
    let look_max = options.look_max;
    let fits = limited(connection, look_max, |connection| Work::new(connection).map(drop));
    checks.push(match &fits {
        Ok(()) => Check::ok("schema", "it fits this program"),
        Err(error) if error.kind() == ErrorKind::VersionMismatch => {
            Check::critical("schema", error.message(), "run `turno migrate` of the release that you use")
        }
        Err(error) => Check::unseen("schema", error, ""),
    });
    let objects = limited(connection, look_max, objects);
    if fits.is_err() && objects.as_ref().is_ok_and(|objects| objects.is_empty()) {
        return;
    }
    let version = limited(connection, look_max, |connection| Work::without_schema(connection)?.version());
    let newer = of_newer_release(version.unwrap_or(0), migrate::VERSION);
    if newer.is_empty() {
        checks.push(look("drift", &objects, "", |objects| {
            drift(&differences(objects), expected("TABLE").len())
        }));
        checks.push(look("indexes", &objects, "", |objects| indexes(objects)));
    }
    // There are no roles here, and so no grants.
    checks.extend(newer.into_iter().filter(|check| check.id != "grants"));
    if fits.is_err() {
        return;
    }
    let rows = |read: &dyn Fn(&Work) -> Result<Vec<Check>>, ids: &[&'static str]| {
        let looked = limited(connection, look_max, |connection| {
            connection.execute_batch("BEGIN").map_err(of_engine)?;
            let checks = Work::new(connection).and_then(|work| read(&work));
            // A transaction that has only read ends in any case.
            let _ = connection.execute_batch("ROLLBACK");
            checks
        });
        looked.unwrap_or_else(|error| ids.iter().map(|id| Check::unseen(id, &error, "")).collect())
    };
    checks.extend(rows(&|work| of_queues(work, options), &["workers", "leases", "paused"]));
    checks.extend(rows(&|work| Ok(vec![kinds(&unhandled(work)?)]), &["kinds"]));
    checks.extend(rows(&|work| Ok(vec![audit(&operations::audit::audit(work)?)]), &["audit"]));
}

fn of_queues(work: &Work, options: &DoctorOptions) -> Result<Vec<Check>> {
    let stats: Vec<QueueStats> = stats::stats(work, WINDOW)?;
    let settings = queues::queue_list(work)?;
    let now = OffsetDateTime::from_unix_timestamp_nanos(i128::from(work.now) * 1000);
    let now = now.unwrap_or_else(|_| OffsetDateTime::now_utc());
    Ok(vec![workers(&stats, WINDOW, options), leases(&stats), paused(&stats, &settings, now, options)])
}

fn unhandled(work: &Work) -> Result<Vec<turno_contract::Unhandled>> {
    let mut found = Vec::new();
    for queue in stats::queues(work)?.iter().take(QUEUES_MAX) {
        found.extend(operations::unhandled::unhandled(work, queue)?);
    }
    Ok(found)
}

/// Interrupts what takes longer than a look may.
fn limited<T>(
    connection: &Connection,
    look_max: Duration,
    body: impl FnOnce(&Connection) -> Result<T>,
) -> Result<T> {
    let handle = connection.get_interrupt_handle();
    let (done, ended) = channel::<()>();
    let timer = std::thread::spawn(move || {
        if ended.recv_timeout(look_max) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            handle.interrupt();
            return true;
        }
        false
    });
    let result = body(connection);
    drop(done);
    match (result, timer.join()) {
        (Err(error), Ok(true)) => {
            Err(Error::new(ErrorKind::Busy, format!("no answer within {look_max:?}")).with_source(error))
        }
        (result, _) => result,
    }
}

/// A table, an index or a trigger as it is stored.
struct Object {
    of_type: String,
    name: String,
    table: String,
    text: String,
}

fn objects(connection: &Connection) -> Result<Vec<Object>> {
    let mut prepared = connection.prepare(statement(STATEMENTS, "objects")).map_err(of_engine)?;
    let read = |row: &rusqlite::Row| {
        // What was renamed has its name in quotes from then on.
        let text = row.get::<_, String>(3)?.replace('"', "");
        Ok(Object { of_type: row.get(0)?, name: row.get(1)?, table: row.get(2)?, text })
    };
    let rows = prepared.query_map([], read).map_err(of_engine)?;
    rows.collect::<rusqlite::Result<_>>().map_err(of_engine)
}

/// What the schema files make: the name, the table and the statement of each table or index.
fn expected(what: &str) -> Vec<(String, String, String)> {
    let statements = SCHEMA.iter().flat_map(|(_, text)| text.split(";\n"));
    let of_statement = |text: &str| {
        let start = text.find("CREATE ")?;
        let text = text[start..].trim();
        let rest = text.strip_prefix("CREATE ")?.trim_start_matches("UNIQUE ");
        let mut words = rest.strip_prefix(what)?.split_whitespace();
        let name = words.next()?.to_owned();
        let table = words.skip_while(|word| *word != "ON").nth(1).unwrap_or(&name).to_owned();
        Some((name, table, text.to_owned()))
    };
    statements.filter_map(of_statement).collect()
}

fn differences(objects: &[Object]) -> Vec<Difference> {
    let tables = expected("TABLE");
    let mut differences = Vec::new();
    for (name, _, text) in &tables {
        match objects.iter().find(|object| object.of_type == "table" && object.name == *name) {
            None => differences.push(Difference::Missing(format!("table {name}"))),
            Some(object) if same_statement(&object.text, text) => {}
            Some(_) => differences.push(Difference::Changed(format!("table {name}"))),
        }
    }
    let is_ours = |object: &&Object| tables.iter().any(|(name, _, _)| *name == object.table);
    let indexes = expected("INDEX");
    for object in objects.iter().filter(is_ours) {
        let is_stray = match object.of_type.as_str() {
            "trigger" => true,
            "index" => !indexes.iter().any(|(name, _, _)| *name == object.name),
            _ => false,
        };
        if is_stray {
            differences
                .push(Difference::Stray(format!("{} {} on {}", object.of_type, object.name, object.table)));
        }
    }
    differences
}

fn indexes(objects: &[Object]) -> Check {
    let shape =
        |text: &str| text.split_whitespace().skip_while(|word| *word != "ON").collect::<Vec<_>>().join(" ");
    let expected: Vec<Index> = expected("INDEX")
        .into_iter()
        .map(|(name, table, text)| Index { name, table, shape: shape(&text) })
        .collect();
    let found: Vec<Index> = objects
        .iter()
        .filter(|object| object.of_type == "index")
        .map(|object| Index {
            name: object.name.clone(),
            table: object.table.clone(),
            shape: shape(&object.text),
        })
        .collect();
    doctor::indexes(&expected, &found, &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use turno_contract::doctor::CheckStatus;

    #[test]
    fn the_schema_files_are_understood() {
        let tables = expected("TABLE");
        assert!(tables.len() >= 9 && tables.iter().any(|(name, _, _)| name == "turno_job"), "{tables:?}");
        let indexes = expected("INDEX");
        assert!(indexes.iter().any(|(name, table, _)| name == "turno_job_ready" && table == "turno_job"));
    }

    #[test]
    fn a_full_disk_is_told_before_it_is_full() {
        assert_eq!(free(Some(50 << 30)).status, CheckStatus::Ok);
        assert_eq!(free(Some(500 << 20)).status, CheckStatus::Warning);
        assert_eq!(free(Some(1 << 20)).status, CheckStatus::Critical);
        assert_eq!(free(None).status, CheckStatus::Unknown);
    }

    #[test]
    fn a_look_that_takes_too_long_is_interrupted() {
        let connection = Connection::open_in_memory().unwrap();
        let endless =
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
        let answer: Result<i64> = limited(&connection, Duration::from_millis(50), |connection| {
            connection.query_row(endless, [], |row| row.get(0)).map_err(of_engine)
        });
        let error = answer.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    }
}
