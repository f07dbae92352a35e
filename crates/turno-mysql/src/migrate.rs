//! Installing and upgrading the schema. MySQL and MariaDB commit every definition by itself, so a migration is marked
//! while it runs, and every step can be run again after one that was cut off. Workers never do this by themselves.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use sha2::{Digest, Sha256};
use turno_contract::{Error, ErrorKind, MigrateReport, Result};

use crate::error::from_call;
use crate::files::{self, File};
use crate::rows::get;

/// The schema's version that this binary was built with.
pub(crate) const VERSION: i64 = 1;

/// The roles of an installation, with the schema's name before them (rule X2).
const ROLES: [&str; 5] = ["producer", "worker", "scheduler", "operator", "viewer"];

/// Roles made of others, since a session of MariaDB has one role at a time.
const COMBINED: [(&str, &[&str]); 2] = [("service", &["producer", "worker"]), ("admin", &ROLES)];

/// What a routine keeps of the session that makes it: strict mode, so that nothing is cut or rounded in silence, and a
/// collation that compares bytes.
const SESSION_SQL: [&str; 2] = [
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION,ONLY_FULL_GROUP_BY'",
];

/// Whether this binary may use a schema. Errors with `VersionMismatch`.
pub(crate) fn check_version(version: i64, oldest_binary: i64) -> Result<()> {
    let message = if version < VERSION {
        format!("the schema has version {version} and this binary needs {VERSION}: run turno migrate")
    } else if VERSION < oldest_binary {
        format!(
            "the schema (version {version}) needs a binary of {oldest_binary} or newer, and this one is of {VERSION}"
        )
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::VersionMismatch, message))
}

/// Brings the schema to this binary's version, or with `check` says what that would do.
pub(crate) async fn migrate(mut connection: Conn, schema: String, check: bool) -> Result<MigrateReport> {
    let lock = format!("turno migrate {schema}");
    // Not for ever: another migration ends soon.
    let taken: Option<Option<i64>> =
        connection.exec_first("SELECT GET_LOCK(?, 30)", (&lock,)).await.map_err(from_call)?;
    if taken.flatten() != Some(1) {
        return Err(Error::new(ErrorKind::Busy, "another migration has been running for 30 s"));
    }
    let report = migrate_alone(&mut connection, &schema, check).await;
    // The end of the session gives the lock back.
    connection.disconnect().await.map_err(from_call)?;
    report
}

async fn migrate_alone(connection: &mut Conn, schema: &str, check: bool) -> Result<MigrateReport> {
    let version_before = version(connection, schema).await?;
    if let Some(version) = version_before
        && version > VERSION
    {
        let message = format!("the schema has version {version}, newer than this binary's {VERSION}");
        return Err(Error::new(ErrorKind::VersionMismatch, message));
    }
    let installed = installed(connection, schema).await?;
    let checksum_of =
        |file: &str| installed.iter().find(|(name, _)| name == file).map(|(_, sum)| sum.as_str());
    let mut new = Vec::new();
    for file in files::SCHEMA {
        match checksum_of(&schema_name(file)) {
            None => new.push(file),
            Some(sum) if sum == checksum(file.1) => {}
            Some(_) => {
                let message = format!("schema file {} was changed after it had been applied", file.0);
                return Err(Error::new(ErrorKind::VersionMismatch, message));
            }
        }
    }
    let changed: Vec<&File> = files::INTERNAL
        .iter()
        .chain(files::OPERATIONS)
        .filter(|file| checksum_of(file.0) != Some(checksum(file.1).as_str()))
        .collect();
    if !check {
        apply(connection, schema, &new, &changed).await?;
    }
    Ok(MigrateReport {
        version_before,
        version: VERSION,
        applied: new.iter().map(|file| schema_name(file)).collect(),
        operations: changed.iter().map(|file| file.0.to_owned()).collect(),
    })
}

async fn apply(connection: &mut Conn, schema: &str, new: &[&File], changed: &[&File]) -> Result<()> {
    for sql in SESSION_SQL {
        run(connection, sql).await?;
    }
    run(connection, &format!("CREATE DATABASE IF NOT EXISTS {schema}")).await?;
    run(connection, &database_sql(schema)).await?;
    for file in new {
        for statement in statements(&files::in_schema(file.1, schema)) {
            run(connection, statement).await?;
        }
        run(connection, &record_sql(&schema_name(file), file.1, schema)).await?;
    }
    if !changed.is_empty() {
        run(connection, &format!("UPDATE {schema}.meta SET migrating = TRUE")).await?;
    }
    for file in changed {
        run(connection, &format!("DROP PROCEDURE IF EXISTS {schema}.`{}`", file.0)).await?;
        run(connection, &files::in_schema(file.1, schema)).await?;
        run(connection, &record_sql(file.0, file.1, schema)).await?;
    }
    for statement in grants_sql(schema) {
        run(connection, &statement).await?;
    }
    for statement in revokes_sql(connection, schema).await? {
        run(connection, &statement).await?;
    }
    let done = format!("UPDATE {schema}.meta SET version = GREATEST(version, {VERSION}), migrating = FALSE");
    run(connection, &done).await
}

/// The whole installation as one script for the command-line client, for a person who may create what an application may
/// not.
pub(crate) fn script(schema: &str) -> String {
    let mut script = format!(
        "-- turno, schema version {VERSION}, into database {schema}. Run it with the mysql or mariadb client, as the user\n\
         -- that shall own it.\n{};\n{};\nCREATE DATABASE IF NOT EXISTS {schema};\n{};\n\n",
        SESSION_SQL[0],
        SESSION_SQL[1],
        database_sql(schema)
    );
    for file in files::SCHEMA {
        let record = record_sql(&schema_name(file), file.1, schema);
        script += &format!("{}\n{record};\n\n", files::in_schema(file.1, schema));
    }
    for file in files::INTERNAL.iter().chain(files::OPERATIONS) {
        let record = record_sql(file.0, file.1, schema);
        script += &format!(
            "DROP PROCEDURE IF EXISTS {schema}.`{}`;\nDELIMITER $$\n{}$$\nDELIMITER ;\n{record};\n\n",
            file.0,
            files::in_schema(file.1, schema)
        );
    }
    for statement in grants_sql(schema) {
        script += &format!("{statement};\n");
    }
    script
}

/// The statements of a schema file, which end at the end of a line.
fn statements(text: &str) -> impl Iterator<Item = &str> {
    text.split(";\n").map(str::trim).filter(|statement| !statement.is_empty())
}

fn database_sql(schema: &str) -> String {
    format!("ALTER DATABASE {schema} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
}

fn schema_name(file: &File) -> String {
    format!("schema/{}", file.0)
}

fn checksum(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn record_sql(name: &str, text: &str, schema: &str) -> String {
    let sum = checksum(text);
    format!(
        "INSERT INTO {schema}.installed (file, checksum, applied_at) VALUES ('{name}', '{sum}', UTC_TIMESTAMP(6)) \
         ON DUPLICATE KEY UPDATE checksum = VALUES(checksum), applied_at = VALUES(applied_at)"
    )
}

/// Roles if they are missing, then every grant anew: a routine that is made anew has lost its grants.
fn grants_sql(schema: &str) -> Vec<String> {
    let names = ROLES.iter().chain(COMBINED.iter().map(|(name, _)| name));
    let mut sql: Vec<String> =
        names.map(|role| format!("CREATE ROLE IF NOT EXISTS {schema}_{role}")).collect();
    for (name, parts) in COMBINED {
        sql.extend(parts.iter().map(|role| format!("GRANT {schema}_{role} TO {schema}_{name}")));
    }
    for (routine, roles) in grants() {
        let roles = roles.iter().map(|role| format!("{schema}_{role}")).collect::<Vec<_>>().join(", ");
        sql.push(format!("GRANT EXECUTE ON PROCEDURE {schema}.`{routine}` TO {roles}"));
    }
    sql
}

/// The lines of the grants: a routine, and who may call it.
fn grants() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    files::GRANTS.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut words = line.split_whitespace();
        words.next().map(|routine| (routine, words.collect()))
    })
}

/// Rights that our roles hold and the grants no longer give. Only these are taken back, so that nobody is without rights for
/// a moment.
async fn revokes_sql(connection: &mut Conn, schema: &str) -> Result<Vec<String>> {
    let held = "SELECT User, Routine_name FROM mysql.procs_priv WHERE Db = ? AND Routine_type = 'PROCEDURE'";
    let held: Vec<(String, String)> = match connection.exec(held, (schema,)).await.map_err(from_call) {
        // Who may not look has a database administrator who grants and revokes.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(Vec::new()),
        held => held?,
    };
    let given: Vec<(&str, Vec<&str>)> = grants().collect();
    let surplus = |(user, routine): &(String, String)| {
        let role = user.strip_prefix(schema)?.strip_prefix('_')?;
        let may = given.iter().any(|(name, roles)| name == routine && roles.contains(&role));
        (ROLES.contains(&role) && !may)
            .then(|| format!("REVOKE EXECUTE ON PROCEDURE {schema}.`{routine}` FROM {user}"))
    };
    Ok(held.iter().filter_map(surplus).collect())
}

async fn run(connection: &mut Conn, sql: &str) -> Result<()> {
    connection.query_drop(sql).await.map_err(|error| {
        let error = from_call(error);
        let hint = match error.kind() {
            ErrorKind::PermissionDenied => "; let a user who may run what turno migrate --print prints",
            _ => "",
        };
        Error::new(error.kind(), format!("migrate: {}{hint}", error.message())).with_source(error)
    })
}

async fn version(connection: &mut Conn, schema: &str) -> Result<Option<i64>> {
    let exists =
        "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = ? AND table_name = 'installed'";
    let tables: Option<i64> = connection.exec_first(exists, (schema,)).await.map_err(from_call)?;
    if tables.unwrap_or(0) == 0 {
        return Ok(None);
    }
    connection.query_first(format!("SELECT version FROM {schema}.meta")).await.map_err(from_call)
}

async fn installed(connection: &mut Conn, schema: &str) -> Result<Vec<(String, String)>> {
    if version(connection, schema).await?.is_none() {
        return Ok(Vec::new());
    }
    let sql = format!("SELECT file, checksum FROM {schema}.installed");
    let rows: Vec<Row> = connection.query(sql).await.map_err(from_call)?;
    rows.iter().map(|row| Ok((get(row, "file")?, get(row, "checksum")?))).collect()
}
