//! Opening the database: the settings that every connection has. Refuses network file systems, and databases that do
//! not take the write-ahead log.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use turno_contract::{Error, ErrorKind, Result};

use crate::error::of_engine;
use crate::options::Place;

/// File systems whose shared memory does not reach other machines, by the number that statfs(2) answers: there the
/// write-ahead log corrupts the database.
pub(crate) const NETWORK_FILE_SYSTEMS: &[(i64, &str)] = &[
    (0x6969, "nfs"),
    (0x517B, "smb"),
    (0xFE53_4D42, "smb2"),
    (0xFF53_4D42, "cifs"),
    (0x0102_1997, "9p"),
    (0x5346_414F, "afs"),
    (0x7375_7245, "coda"),
    (0x564C, "ncp"),
    (0x00C3_6400, "ceph"),
    (0x0BD0_0BD0, "lustre"),
    (0x4750_4653, "gpfs"),
];

/// How long opening waits for the lock that the switch to the write-ahead log takes.
const OPEN_PATIENCE: Duration = Duration::from_secs(5);
/// How long the engine itself waits for a lock. Short: the writer has its own, fairer way to wait.
const ENGINE_PATIENCE: Duration = Duration::from_millis(5);
/// A reader waits only while somebody recovers the database after a crash.
const READER_PATIENCE: Duration = Duration::from_secs(5);
/// More than there are statements, so that each is prepared once.
const STATEMENTS_CACHED: usize = 128;

/// A commit is on the disk before it is answered; and a log that one large transaction blew up shrinks again.
const SETTINGS: &str =
    "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA journal_size_limit = 67108864";

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Write,
    Read,
}

/// Opens one connection. A missing file is created only if `create` says so.
pub(crate) fn open(place: &Place, purpose: Purpose, create: bool) -> Result<Connection> {
    let connection = match place {
        Place::Memory => Connection::open_in_memory().map_err(of_engine)?,
        Place::File(path) => {
            refuse_network(path)?;
            let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            if create {
                flags |= OpenFlags::SQLITE_OPEN_CREATE;
            }
            Connection::open_with_flags(path, flags).map_err(of_engine)?
        }
    };
    connection.busy_timeout(OPEN_PATIENCE).map_err(of_engine)?;
    let mode = switch_to_wal(&connection)?;
    if mode != "wal" && *place != Place::Memory {
        let message =
            format!("the database does not take the write-ahead log: its journal mode stays {mode:?}");
        return Err(Error::new(ErrorKind::Unavailable, message));
    }
    connection.execute_batch(SETTINGS).map_err(of_engine)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    let patience = if purpose == Purpose::Write { ENGINE_PATIENCE } else { READER_PATIENCE };
    connection.busy_timeout(patience).map_err(of_engine)?;
    Ok(connection)
}

/// Asks for the write-ahead log; answers the mode that the database has then.
fn switch_to_wal(connection: &Connection) -> Result<String> {
    let begun = Instant::now();
    loop {
        let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
        match mode.map_err(of_engine) {
            // The engine does not wait here when two connections want to switch at once.
            Err(error) if error.kind() == ErrorKind::Busy && begun.elapsed() < OPEN_PATIENCE => {
                std::thread::sleep(Duration::from_millis(fastrand::u64(5..25)));
            }
            mode => return mode,
        }
    }
}

/// Errors if the file, or the folder that it would be created in, lies on a network.
fn refuse_network(path: &Path) -> Result<()> {
    match space(path)?.network {
        Some(name) => Err(network_error(path, name)),
        None => Ok(()),
    }
}

/// The file, or the folder that it would be created in.
#[cfg(target_os = "linux")]
fn existing(path: &Path) -> &Path {
    match path.parent() {
        _ if path.exists() => path,
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The file system of a file, or of the folder that it would be created in.
pub(crate) struct Space {
    /// Its name, if it is one of a network.
    pub(crate) network: Option<&'static str>,
    /// What is free on it; `None` where the system does not say.
    pub(crate) free_bytes: Option<u64>,
}

#[cfg(target_os = "linux")]
pub(crate) fn space(path: &Path) -> Result<Space> {
    let path = existing(path);
    let answer = rustix::fs::statfs(path).map_err(|error| {
        Error::new(ErrorKind::Unavailable, format!("{}: {error}", path.display())).with_source(error)
    })?;
    let free_bytes = u64::try_from(answer.f_bsize).ok().map(|size| size.saturating_mul(answer.f_bavail));
    Ok(Space { network: network_name(answer.f_type as i64), free_bytes })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn space(_path: &Path) -> Result<Space> {
    Ok(Space { network: None, free_bytes: None })
}

/// Whether the file is in the mode of the write-ahead log, by its header; `None` if there is no file that says so. Looked at
/// before the database is opened, which switches it.
pub(crate) fn is_wal(path: &Path) -> Option<bool> {
    use std::io::Read;
    let mut header = [0u8; 20];
    std::fs::File::open(path).ok()?.read_exact(&mut header).ok()?;
    header.starts_with(b"SQLite format 3").then_some(header[18] == 2)
}

fn network_error(path: &Path, name: &str) -> Error {
    let path = path.display();
    Error::invalid(format!("{path} lies on a network file system ({name}), where SQLite's log is not safe"))
}

/// The name of a network file system; `None` for a local one.
fn network_name(number: i64) -> Option<&'static str> {
    // The kernel's field is 32 bits wide on some machines, and then negative for the larger numbers.
    let number = number & 0xFFFF_FFFF;
    NETWORK_FILE_SYSTEMS.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_number_whatever_its_sign() {
        assert_eq!(network_name(0x6969), Some("nfs"));
        assert_eq!(network_name(i64::from(0xFF53_4D42_u32 as i32)), Some("cifs"));
        assert_eq!(network_name(0xEF53), None, "ext4 is local");
    }

    #[test]
    fn a_missing_folder_is_an_error_at_once() {
        let place = Place::File("/nonexistent-folder/queue.db".into());
        let error = open(&place, Purpose::Write, true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
}
