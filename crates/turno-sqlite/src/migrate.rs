//! Bringing the schema to this binary's version. Refuses a schema that is newer than this binary may use, and schema
//! files that were changed after they had been applied.

use std::collections::HashMap;

use turno_contract::schema_files::{Ahead, checksum};
use turno_contract::{Error, ErrorKind, MigrateReport, Result};

use crate::error::of_engine;
use crate::statements::{File, SCHEMA};
use crate::work::Work;

/// The version that this binary needs, and the number by which the schema knows this binary.
pub(crate) const VERSION: i64 = SCHEMA.len() as i64;

/// Errors with `VersionMismatch` unless this binary may use the schema.
pub(crate) fn check_version(version: i64, oldest_binary: i64) -> Result<()> {
    if oldest_binary > VERSION {
        return Err(mismatch(format!(
            "the schema has version {version} and needs a binary of version {oldest_binary} or newer; this one is of version {VERSION}"
        )));
    }
    if version < VERSION {
        return Err(mismatch(format!(
            "the schema has version {version}, older than this binary's {VERSION}: run turno migrate"
        )));
    }
    Ok(())
}

fn mismatch(message: String) -> Error {
    Error::new(ErrorKind::VersionMismatch, message)
}

/// What would be done where there is nothing yet.
pub(crate) fn report_of_nothing(ahead: Option<&Ahead>) -> MigrateReport {
    report(&schema(ahead), None, 0)
}

/// The schema files of this binary.
fn schema(ahead: Option<&Ahead>) -> Vec<File> {
    let newer: &[File] = ahead.map_or(&[], |ahead| ahead.schema);
    [SCHEMA, newer].concat()
}

fn report(files: &[File], version_before: Option<i64>, applied: usize) -> MigrateReport {
    MigrateReport {
        version_before,
        version: files.len() as i64,
        applied: files[applied..].iter().map(|(name, _)| (*name).to_owned()).collect(),
        operations: Vec::new(),
    }
}

/// Applies the schema files that are missing; with `check` only says which.
pub(crate) fn migrate(work: &Work, ahead: Option<&Ahead>, check: bool) -> Result<MigrateReport> {
    let files = schema(ahead);
    let present: i64 = work.one("schema_version.present", &[], |row| row.get(0))?;
    if present == 0 {
        if !check {
            apply(work, &files, ahead)?;
        }
        return Ok(report(&files, None, 0));
    }
    let (version, oldest_binary) =
        work.one("schema_version.read", &[], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    if version > files.len() as i64 {
        let than = format!("newer than this binary's {VERSION} (it serves binaries from {oldest_binary} on)");
        return Err(mismatch(format!(
            "the schema has version {version}, {than}: migrate with the newer program"
        )));
    }
    let applied = files.len().min(version.max(0) as usize);
    compare(work, &files[..applied], check)?;
    if !check {
        apply(work, &files[applied..], ahead)?;
    }
    Ok(report(&files, Some(version), applied))
}

/// Errors if a file that was applied is another one now. A file that somebody ran by hand is recorded.
fn compare(work: &Work, files: &[File], check: bool) -> Result<()> {
    let known: HashMap<String, String> =
        work.rows("schema_version.files", &[], |row| Ok((row.get(0)?, row.get(1)?)))?.into_iter().collect();
    for (name, text) in files {
        match known.get(*name) {
            Some(known) if *known == checksum(text) => {}
            Some(_) => {
                return Err(mismatch(format!(
                    "the schema file {name} is not the one that was applied to this database"
                )));
            }
            None if check => {}
            None => record(work, name, text)?,
        }
    }
    Ok(())
}

fn apply(work: &Work, files: &[File], ahead: Option<&Ahead>) -> Result<()> {
    let step = ahead.map_or((|_| ()) as fn(&str), |ahead| ahead.step);
    for (name, text) in files {
        step(name);
        work.connection().execute_batch(text).map_err(of_engine)?;
        record(work, name, text)?;
    }
    step("commit");
    Ok(())
}

fn record(work: &Work, name: &str, text: &str) -> Result<()> {
    work.execute(
        "schema_version.applied",
        &[(":name", &name), (":checksum", &checksum(text)), (":now", &work.now)],
    )?;
    Ok(())
}

/// The whole schema as one script, to be read and run by hand.
pub(crate) fn script() -> String {
    let mut script = String::from("PRAGMA journal_mode = WAL;\nBEGIN IMMEDIATE;\n\n");
    for (name, text) in SCHEMA {
        script.push_str(&format!("-- {name}\n{text}\n"));
    }
    script + "COMMIT;\n"
}
