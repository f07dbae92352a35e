//! Installing and upgrading the schema. MySQL and MariaDB commit every definition by itself, so a migration is marked
//! while it runs, and every step can be run again after one that was cut off. Workers never do this by themselves.

use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use turno_contract::schema_files::{Ahead, Plan, SchemaFiles, checksum, schema_name};
use turno_contract::{Error, ErrorKind, MigrateReport, Result};

use crate::error::{from_call, was_run_before};
use crate::files;
use crate::rows::get;

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

/// How long one statement of a migration waits for a lock, in the unit of the servers' setting: whoever comes after it waits
/// as long, claims among them.
const LOCK_WAIT_S: u64 = 1;
/// How long a migration tries to get one lock, with pauses in which everybody else goes on.
const LOCK_PATIENCE: Duration = Duration::from_secs(60);
/// Between two tries.
const LOCK_PAUSE_MS: std::ops::Range<u64> = 500..1500;

/// The files of this binary.
pub(crate) fn schema_files(ahead: Option<Ahead>) -> SchemaFiles {
    SchemaFiles::new(files::SCHEMA, [files::INTERNAL, files::OPERATIONS], files::GRANTS, ahead)
}

/// Brings the schema to this binary's version, or with `check` says what that would do.
pub(crate) async fn migrate(
    mut connection: Conn,
    schema: String,
    ours: SchemaFiles,
    check: bool,
) -> Result<MigrateReport> {
    if check {
        return look(&mut connection, &schema, &ours).await.map(|(before, plan)| plan.report(before, &ours));
    }
    let lock = format!("turno migrate {schema}");
    // Not for ever: another migration ends soon. A server that still runs a statement of a program that was killed counts.
    let taken: Option<Option<i64>> =
        connection.exec_first("SELECT GET_LOCK(?, 30)", (&lock,)).await.map_err(from_call)?;
    if taken.flatten() != Some(1) {
        return Err(Error::new(ErrorKind::Busy, "another migration has been running for 30 s"));
    }
    let report = migrate_alone(&mut connection, &schema, &ours).await;
    // The end of the session gives the lock back.
    connection.disconnect().await.map_err(from_call)?;
    report
}

async fn migrate_alone(connection: &mut Conn, schema: &str, ours: &SchemaFiles) -> Result<MigrateReport> {
    ours.step("locked");
    let (version_before, plan) = look(connection, schema, ours).await?;
    for sql in SESSION_SQL {
        run(connection, sql).await?;
    }
    run(connection, &format!("SET SESSION lock_wait_timeout = {LOCK_WAIT_S}")).await?;
    // Not where there is one: MySQL would wait for the end of every transaction that uses it.
    if version_before.is_none() {
        run(connection, &format!("CREATE DATABASE IF NOT EXISTS {schema}")).await?;
        run(connection, &database_sql(schema)).await?;
    }
    apply(connection, schema, ours, &plan).await?;
    Ok(plan.report(version_before, ours))
}

/// What is there, and what is missing.
async fn look(connection: &mut Conn, schema: &str, ours: &SchemaFiles) -> Result<(Option<i64>, Plan)> {
    let version_before = version(connection, schema).await?;
    let installed = match version_before {
        None => Vec::new(),
        Some(_) => installed(connection, schema).await?,
    };
    Ok((version_before, ours.plan(version_before, &installed)?))
}

async fn apply(connection: &mut Conn, schema: &str, ours: &SchemaFiles, plan: &Plan) -> Result<()> {
    for file in &plan.schema {
        for statement in statements(&files::in_schema(file.1, schema)) {
            ours.step(file.0);
            run(connection, statement).await?;
        }
        ours.step("record");
        run(connection, &record_sql(&schema_name(file), file.1, schema)).await?;
    }
    if !plan.routines.is_empty() {
        run(connection, &format!("UPDATE {schema}.meta SET migrating = TRUE")).await?;
    }
    // A routine that is made anew has lost its grants, so it gets them before the next one is touched.
    let roles = roles_sql(schema);
    for statement in &roles {
        run(connection, statement).await?;
    }
    for file in &plan.routines {
        ours.step(file.0);
        run(connection, &format!("DROP PROCEDURE IF EXISTS {schema}.`{}`", file.0)).await?;
        ours.step("dropped");
        run(connection, &files::in_schema(file.1, schema)).await?;
        for statement in grants_sql(schema, ours, Some(file.0)) {
            run(connection, &statement).await?;
        }
        run(connection, &record_sql(file.0, file.1, schema)).await?;
    }
    ours.step("grants");
    for statement in grants_sql(schema, ours, None) {
        run(connection, &statement).await?;
    }
    for statement in revokes_sql(connection, schema, ours).await? {
        run(connection, &statement).await?;
    }
    ours.step("version");
    let done =
        format!("UPDATE {schema}.meta SET version = GREATEST(version, {}), migrating = FALSE", ours.version);
    run(connection, &done).await
}

/// The whole installation as one script for the command-line client, for a person who may create what an application may
/// not.
pub(crate) fn script(schema: &str, ours: &SchemaFiles) -> String {
    let mut script = format!(
        "-- turno, schema version {}, into database {schema}. Run it with the mysql or mariadb client, as the user\n\
         -- that shall own it.\n{};\n{};\nCREATE DATABASE IF NOT EXISTS {schema};\n{};\n\n",
        ours.version,
        SESSION_SQL[0],
        SESSION_SQL[1],
        database_sql(schema)
    );
    for file in ours.schema() {
        let record = record_sql(&schema_name(file), file.1, schema);
        script += &format!("{}\n{record};\n\n", files::in_schema(file.1, schema));
    }
    for file in ours.routines() {
        let record = record_sql(file.0, file.1, schema);
        script += &format!(
            "DROP PROCEDURE IF EXISTS {schema}.`{}`;\nDELIMITER $$\n{}$$\nDELIMITER ;\n{record};\n\n",
            file.0,
            files::in_schema(file.1, schema)
        );
    }
    for statement in roles_sql(schema).iter().chain(&grants_sql(schema, ours, None)) {
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

fn record_sql(name: &str, text: &str, schema: &str) -> String {
    let sum = checksum(text);
    format!(
        "INSERT INTO {schema}.installed (file, checksum, applied_at) VALUES ('{name}', '{sum}', UTC_TIMESTAMP(6)) \
         ON DUPLICATE KEY UPDATE checksum = VALUES(checksum), applied_at = VALUES(applied_at)"
    )
}

/// Roles if they are missing, and those that are made of others.
fn roles_sql(schema: &str) -> Vec<String> {
    let names = ROLES.iter().chain(COMBINED.iter().map(|(name, _)| name));
    let mut sql: Vec<String> =
        names.map(|role| format!("CREATE ROLE IF NOT EXISTS {schema}_{role}")).collect();
    for (name, parts) in COMBINED {
        sql.extend(parts.iter().map(|role| format!("GRANT {schema}_{role} TO {schema}_{name}")));
    }
    sql
}

/// The grants of one routine, or of all.
fn grants_sql(schema: &str, ours: &SchemaFiles, only: Option<&str>) -> Vec<String> {
    let wanted = ours.grants().filter(|(routine, _)| only.is_none_or(|only| only == *routine));
    let sql = wanted.map(|(routine, roles)| {
        let roles = roles.iter().map(|role| format!("{schema}_{role}")).collect::<Vec<_>>().join(", ");
        format!("GRANT EXECUTE ON PROCEDURE {schema}.`{routine}` TO {roles}")
    });
    sql.collect()
}

/// Rights that our roles hold and the grants no longer give. Only these are taken back, so that nobody is without rights for
/// a moment.
async fn revokes_sql(connection: &mut Conn, schema: &str, ours: &SchemaFiles) -> Result<Vec<String>> {
    let held = "SELECT User, Routine_name FROM mysql.procs_priv WHERE Db = ? AND Routine_type = 'PROCEDURE'";
    let held: Vec<(String, String)> = match connection.exec(held, (schema,)).await.map_err(from_call) {
        // Who may not look has a database administrator who grants and revokes.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(Vec::new()),
        held => held?,
    };
    let given: Vec<(&str, Vec<&str>)> = ours.grants().collect();
    let surplus = |(user, routine): &(String, String)| {
        let role = user.strip_prefix(schema)?.strip_prefix('_')?;
        let may = given.iter().any(|(name, roles)| name == routine && roles.contains(&role));
        (ROLES.contains(&role) && !may)
            .then(|| format!("REVOKE EXECUTE ON PROCEDURE {schema}.`{routine}` FROM {user}"))
    };
    Ok(held.iter().filter_map(surplus).collect())
}

/// Runs one statement, again if a lock was not to be had. One that a migration ran before it was cut off has nothing to do.
async fn run(connection: &mut Conn, sql: &str) -> Result<()> {
    let begun = Instant::now();
    loop {
        let error = match connection.query_drop(sql).await {
            Err(error) if !was_run_before(&error) => from_call(error),
            _ => return Ok(()),
        };
        if error.kind() == ErrorKind::Busy && begun.elapsed() < LOCK_PATIENCE {
            tracing::warn!(%error, "a lock was not to be had; trying again");
            tokio::time::sleep(Duration::from_millis(fastrand::u64(LOCK_PAUSE_MS))).await;
            continue;
        }
        let hint = match error.kind() {
            ErrorKind::PermissionDenied => {
                "; let a user who may run what turno migrate --print prints".to_owned()
            }
            ErrorKind::Busy => {
                format!("; tried for {} s: run it again, it goes on there", LOCK_PATIENCE.as_secs())
            }
            _ => String::new(),
        };
        return Err(
            Error::new(error.kind(), format!("migrate: {}{hint}", error.message())).with_source(error)
        );
    }
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
    let sql = format!("SELECT file, checksum FROM {schema}.installed");
    let rows: Vec<Row> = connection.query(sql).await.map_err(from_call)?;
    rows.iter().map(|row| Ok((get(row, "file")?, get(row, "checksum")?))).collect()
}
