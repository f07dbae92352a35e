//! Installing and upgrading the schema. What can be is done in one transaction, so that workers see the old or the new
//! routines and nothing between; an index that is built while everybody works comes before it. Workers never do this by
//! themselves.

use std::time::{Duration, Instant};

use turno_contract::schema_files::{Ahead, File, Part, Plan, SchemaFiles, checksum, index_name, schema_name};
use turno_contract::{Error, ErrorKind, MigrateReport, Result};

use crate::call::{Caller, Connection, run};
use crate::error::from_call;
use crate::files;
use crate::rows::get;

/// The roles of an installation, with the schema's name before them (rule X2).
const ROLES: [&str; 5] = ["producer", "worker", "scheduler", "operator", "viewer"];

/// What a procedure keeps of the session that makes it, and a filtered index asks of the one that makes that.
const SESSION_SQL: &str = "SET QUOTED_IDENTIFIER, ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, \
     XACT_ABORT, NOCOUNT ON; SET NUMERIC_ROUNDABORT OFF";

/// SQL Server 2016, whose OPENJSON the routines need.
const COMPATIBILITY_LEVEL_MIN: i64 = 130;

/// How long a statement of a migration waits for a lock: whoever comes after it waits as long.
const LOCK_WAIT_MS: u64 = 1000;
/// How long a migration tries to get its locks, with pauses in which everybody else goes on.
const LOCK_PATIENCE: Duration = Duration::from_secs(60);
/// Between two tries.
const LOCK_PAUSE_MS: std::ops::Range<u64> = 500..1500;
/// Enterprise (and Developer), Azure SQL Database, Azure SQL Managed Instance: there an index can be built while everybody works.
const ONLINE_EDITIONS: [i64; 3] = [3, 5, 8];

/// The files of this binary.
pub(crate) fn schema_files(ahead: Option<Ahead>) -> SchemaFiles {
    SchemaFiles::new(files::SCHEMA, [files::INTERNAL, files::OPERATIONS], files::GRANTS, ahead)
}

/// Brings the schema to this binary's version, or with `check` says what that would do. If a lock was not to be had it begins
/// again, with another connection, since one with an error behind it is not trusted.
pub(crate) async fn migrate(
    caller: &Caller,
    schema: &str,
    ours: &SchemaFiles,
    check: bool,
) -> Result<MigrateReport> {
    let begun = Instant::now();
    loop {
        let (name, files) = (schema.to_owned(), ours.clone());
        let outcome =
            caller.with_connection(move |connection| migrate_once(connection, name, files, check)).await;
        match outcome {
            Err(error) if error.kind() == ErrorKind::Busy && begun.elapsed() < LOCK_PATIENCE => {
                tracing::warn!(%error, "a lock was not to be had; trying again");
                tokio::time::sleep(Duration::from_millis(fastrand::u64(LOCK_PAUSE_MS))).await;
            }
            outcome => return outcome,
        }
    }
}

/// After an error the server rolls back when the session ends.
async fn migrate_once(
    mut connection: Connection,
    schema: String,
    ours: SchemaFiles,
    check: bool,
) -> Result<MigrateReport> {
    let (connection, schema, ours) = (&mut connection, schema.as_str(), &ours);
    step(connection, SESSION_SQL).await?;
    check_compatibility(connection).await?;
    if check {
        let (version_before, plan) = look(connection, schema, ours).await?;
        return Ok(plan.report(version_before, ours));
    }
    step(connection, &lock_sql(schema, "Session")).await?;
    let (version_before, plan) = look(connection, schema, ours).await?;
    let session = format!("SET LOCK_TIMEOUT {LOCK_WAIT_MS}; SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
    step(connection, &session).await?;
    let mut files = Vec::new();
    for part in plan.parts() {
        match part {
            Part::Together(more) => files.extend(more),
            Part::Online(file) => {
                together(connection, schema, ours, &files, None).await?;
                files.clear();
                build(connection, schema, &file).await?;
            }
        }
    }
    together(connection, schema, ours, &files, Some(&plan)).await?;
    Ok(plan.report(version_before, ours))
}

/// What is there, and what is missing. It takes no lock, so that a check disturbs nobody.
async fn look(connection: &mut Connection, schema: &str, ours: &SchemaFiles) -> Result<(Option<i64>, Plan)> {
    let version_before = version(connection, schema).await?;
    let installed = match version_before {
        None => Vec::new(),
        Some(_) => installed(connection, schema).await?,
    };
    Ok((version_before, ours.plan(version_before, &installed)?))
}

/// Runs these schema files, and with the plan everything that ends a migration, in one transaction.
async fn together(
    connection: &mut Connection,
    schema: &str,
    ours: &SchemaFiles,
    files: &[File],
    plan: Option<&Plan>,
) -> Result<()> {
    step(connection, "BEGIN TRANSACTION").await?;
    for file in files {
        // The installation's schema is made with the first file, and in it the table where this is noted.
        batches(connection, &files::in_schema(file.1, schema)).await?;
        step(connection, &record_sql(&schema_name(file), file.1, schema)).await?;
    }
    if let Some(plan) = plan {
        for file in &plan.routines {
            batches(connection, &files::in_schema(file.1, schema)).await?;
            step(connection, &record_sql(file.0, file.1, schema)).await?;
        }
        step(connection, &version_sql(schema, ours)).await?;
        step(connection, &grants_sql(schema, ours)).await?;
    }
    step(connection, "COMMIT TRANSACTION").await
}

/// Builds one index, while everybody works if this edition can. The server undoes a build that was cut off.
async fn build(connection: &mut Connection, schema: &str, file: &File) -> Result<()> {
    let sql = format!(
        "SELECT COUNT(*) AS n FROM sys.indexes i JOIN sys.objects o ON o.object_id = i.object_id WHERE i.name = N'{}' AND \
         o.schema_id = SCHEMA_ID(N'{schema}')",
        index_name(file)
    );
    if number(connection, &sql, "n").await? == Some(0) {
        let edition = "SELECT CAST(SERVERPROPERTY('EngineEdition') AS bigint) AS edition";
        let edition = number(connection, edition, "edition").await?;
        let text = files::in_schema(file.1, schema);
        let online = edition.is_some_and(|edition| ONLINE_EDITIONS.contains(&edition));
        let text = if online { text } else { text.replace("ONLINE = ON", "ONLINE = OFF") };
        batches(connection, &text).await?;
    }
    step(connection, &record_sql(&schema_name(file), file.1, schema)).await
}

/// The whole installation as one script for sqlcmd, for a person who may create what an application may not.
pub(crate) fn script(schema: &str, ours: &SchemaFiles) -> String {
    let mut script = format!(
        "-- turno, schema version {}, into schema {schema} of the database that you are in. Run it once, with sqlcmd -b, as a\n\
         -- member of db_owner.\n{SESSION_SQL};\nGO\nBEGIN TRANSACTION;\n{};\nGO\n",
        ours.version,
        lock_sql(schema, "Transaction")
    );
    let note = |name: &str, text: &str| format!("{};\nGO\n", record_sql(name, text, schema));
    for file in ours.schema() {
        script += &format!("{}GO\n{}", files::in_schema(file.1, schema), note(&schema_name(file), file.1));
    }
    for file in ours.routines() {
        script += &format!("{}GO\n{}", files::in_schema(file.1, schema), note(file.0, file.1));
    }
    script +=
        &format!("{};\n{}GO\nCOMMIT TRANSACTION;\nGO\n", version_sql(schema, ours), grants_sql(schema, ours));
    script
}

fn lock_sql(schema: &str, owner: &str) -> String {
    format!(
        "DECLARE @answer int; EXEC @answer = sp_getapplock @Resource = N'turno migrate {schema}', @LockMode = 'Exclusive', \
         @LockOwner = '{owner}', @LockTimeout = 30000; IF @answer < 0 THROW 53107, N'another migration has been running \
         for 30 s', 1"
    )
}

fn record_sql(name: &str, text: &str, schema: &str) -> String {
    let sum = checksum(text);
    format!(
        "DELETE FROM {schema}.installed WHERE name = '{name}'; \
         INSERT INTO {schema}.installed (name, checksum, applied_at) VALUES ('{name}', '{sum}', SYSUTCDATETIME())"
    )
}

fn version_sql(schema: &str, ours: &SchemaFiles) -> String {
    let version = ours.version;
    format!("UPDATE {schema}.meta SET version = IIF(version > {version}, version, {version})")
}

/// Roles if they are missing, then every grant anew.
fn grants_sql(schema: &str, ours: &SchemaFiles) -> String {
    let mut sql = String::new();
    for role in ROLES {
        sql +=
            &format!("IF DATABASE_PRINCIPAL_ID(N'{schema}_{role}') IS NULL CREATE ROLE {schema}_{role};\n");
    }
    let all = ROLES.map(|role| format!("{schema}_{role}")).join(", ");
    for (routine, roles) in ours.grants() {
        let roles = roles.iter().map(|role| format!("{schema}_{role}")).collect::<Vec<_>>().join(", ");
        sql += &format!("REVOKE EXECUTE ON OBJECT::{schema}.{routine} FROM {all};\n");
        sql += &format!("GRANT EXECUTE ON OBJECT::{schema}.{routine} TO {roles};\n");
    }
    sql
}

async fn batches(connection: &mut Connection, text: &str) -> Result<()> {
    for batch in files::batches(text) {
        step(connection, batch).await?;
    }
    Ok(())
}

async fn step(connection: &mut Connection, sql: &str) -> Result<()> {
    run(connection, sql).await.map(drop).map_err(|error| {
        let error = from_call(error);
        let hint = match error.kind() {
            ErrorKind::PermissionDenied => "; let somebody run what turno migrate --print prints",
            _ => "",
        };
        Error::new(error.kind(), format!("migrate: {}{hint}", error.message())).with_source(error)
    })
}

async fn check_compatibility(connection: &mut Connection) -> Result<()> {
    let sql = "SELECT compatibility_level FROM sys.databases WHERE database_id = DB_ID()";
    let rows = run(connection, sql).await.map_err(from_call)?;
    let Some(row) = rows.first() else { return Ok(()) };
    let level: i64 = get(row, "compatibility_level")?;
    if level >= COMPATIBILITY_LEVEL_MIN {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the database has compatibility level {level}; turno needs {COMPATIBILITY_LEVEL_MIN} (SQL Server 2016) or more"
    )))
}

async fn version(connection: &mut Connection, schema: &str) -> Result<Option<i64>> {
    let sql = format!("SELECT OBJECT_ID(N'{schema}.meta', N'U') AS id");
    let rows = run(connection, &sql).await.map_err(from_call)?;
    let id: Option<i64> = rows.first().map(|row| get(row, "id")).transpose()?.flatten();
    if id.is_none() {
        return Ok(None);
    }
    number(connection, &format!("SELECT version FROM {schema}.meta"), "version").await
}

async fn number(connection: &mut Connection, sql: &str, column: &'static str) -> Result<Option<i64>> {
    let rows = run(connection, sql).await.map_err(from_call)?;
    rows.first().map(|row| get(row, column)).transpose()
}

async fn installed(connection: &mut Connection, schema: &str) -> Result<Vec<(String, String)>> {
    let sql = format!("SELECT name, checksum FROM {schema}.installed");
    let rows = run(connection, &sql).await.map_err(from_call)?;
    rows.iter().map(|row| Ok((get(row, "name")?, get(row, "checksum")?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_creates_everything_once_and_in_order() {
        let script = script("jobs", &schema_files(None));
        assert!(!script.contains("turno."), "another schema's name is left");
        let mut place = 0;
        for text in [
            "CREATE SCHEMA jobs ",
            "CREATE TABLE jobs.unfinished_job ",
            "FUNCTION jobs.bad_name(",
            "PROCEDURE jobs.claim\n",
            "CREATE ROLE jobs_producer",
            "GRANT EXECUTE ON OBJECT::jobs.claim TO jobs_worker",
            "\nCOMMIT TRANSACTION;\nGO\n",
        ] {
            assert_eq!(script.matches(text).count(), 1, "{text}");
            let at = script.find(text).expect("counted above");
            assert!(at > place, "{text} comes too early");
            place = at;
        }
        for batch in files::batches(&script) {
            let defines = batch.contains("CREATE OR ALTER ");
            let first =
                batch.lines().find(|line| !line.is_empty() && !line.starts_with("--")).expect("not empty");
            assert!(
                !defines || first.starts_with("CREATE OR ALTER "),
                "a definition must begin its batch: {first}"
            );
        }
    }

    #[test]
    fn every_operation_is_granted_and_no_internal_routine() {
        let grants = grants_sql("turno", &schema_files(None));
        for (name, _) in files::OPERATIONS {
            assert!(grants.contains(&format!("GRANT EXECUTE ON OBJECT::turno.{name} TO ")), "{name}");
        }
        for (name, _) in files::INTERNAL {
            assert!(!grants.contains(&format!("turno.{name} ")), "{name}");
        }
        assert!(!grants.contains("GRANT SELECT") && !grants.contains("ON SCHEMA"));
    }
}
