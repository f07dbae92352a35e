//! Installing and upgrading the schema: one transaction, so that workers see the old or the new routines and nothing
//! between. Workers never do this by themselves.

use sha2::{Digest, Sha256};
use turno_contract::{Error, ErrorKind, MigrateReport, Result};

use crate::call::{Connection, run};
use crate::error::from_call;
use crate::files::{self, File};
use crate::rows::get;

/// The schema's version that this binary was built with.
pub(crate) const VERSION: i64 = 1;

/// The roles of an installation, with the schema's name before them (rule X2).
const ROLES: [&str; 5] = ["producer", "worker", "scheduler", "operator", "viewer"];

/// What a procedure keeps of the session that makes it, and a filtered index asks of the one that makes that.
const SESSION_SQL: &str = "SET QUOTED_IDENTIFIER, ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, \
     XACT_ABORT, NOCOUNT ON; SET NUMERIC_ROUNDABORT OFF";

/// SQL Server 2016, whose OPENJSON the routines need.
const COMPATIBILITY_LEVEL_MIN: i64 = 130;

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
pub(crate) async fn migrate(
    mut connection: Connection,
    schema: String,
    check: bool,
) -> Result<MigrateReport> {
    let report = migrate_alone(&mut connection, &schema, check).await;
    // After an error the server rolls back when the session ends.
    if report.is_ok() {
        let end = if check { "ROLLBACK TRANSACTION" } else { "COMMIT TRANSACTION" };
        step(&mut connection, end).await?;
    }
    report
}

async fn migrate_alone(connection: &mut Connection, schema: &str, check: bool) -> Result<MigrateReport> {
    step(connection, SESSION_SQL).await?;
    check_compatibility(connection).await?;
    // Not for ever: a worker's statement ends soon, somebody's forgotten transaction does not.
    step(
        connection,
        "SET LOCK_TIMEOUT 30000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN TRANSACTION",
    )
    .await?;
    step(connection, &lock_sql(schema)).await?;
    let version_before = version(connection, schema).await?;
    if let Some(version) = version_before
        && version > VERSION
    {
        let message = format!("the schema has version {version}, newer than this binary's {VERSION}");
        return Err(Error::new(ErrorKind::VersionMismatch, message));
    }
    let installed = match version_before {
        None => Vec::new(),
        Some(_) => installed(connection, schema).await?,
    };
    let checksum_of =
        |file: &str| installed.iter().find(|(name, _)| name == file).map(|(_, sum)| sum.as_str());
    let (mut applied, mut operations) = (Vec::new(), Vec::new());
    for file in files::SCHEMA {
        match checksum_of(&schema_name(file)) {
            None => applied.push(schema_name(file)),
            Some(sum) if sum == checksum(file.1) => continue,
            Some(_) => {
                let message = format!("schema file {} was changed after it had been applied", file.0);
                return Err(Error::new(ErrorKind::VersionMismatch, message));
            }
        }
        // The installation's schema is made with the first file, and in it the table where this is noted.
        batches(connection, &files::in_schema(file.1, schema)).await?;
        step(connection, &record_sql(&schema_name(file), file.1, schema)).await?;
    }
    for file in files::INTERNAL.iter().chain(files::OPERATIONS) {
        if checksum_of(file.0) != Some(checksum(file.1).as_str()) {
            batches(connection, &files::in_schema(file.1, schema)).await?;
            step(connection, &record_sql(file.0, file.1, schema)).await?;
            operations.push(file.0.to_owned());
        }
    }
    step(connection, &version_sql(schema)).await?;
    step(connection, &grants_sql(schema)).await?;
    tracing::debug!(schema, check, applied = applied.len(), operations = operations.len(), "migrated");
    Ok(MigrateReport { version_before, version: VERSION, applied, operations })
}

/// The whole installation as one script for sqlcmd, for a person who may create what an application may not.
pub(crate) fn script(schema: &str) -> String {
    let mut script = format!(
        "-- turno, schema version {VERSION}, into schema {schema} of the database that you are in. Run it once, with sqlcmd -b, as a\n\
         -- member of db_owner.\n{SESSION_SQL};\nGO\nBEGIN TRANSACTION;\n{};\nGO\n",
        lock_sql(schema)
    );
    let note = |name: &str, text: &str| format!("{};\nGO\n", record_sql(name, text, schema));
    for file in files::SCHEMA {
        script += &format!("{}GO\n{}", files::in_schema(file.1, schema), note(&schema_name(file), file.1));
    }
    for file in files::INTERNAL.iter().chain(files::OPERATIONS) {
        script += &format!("{}GO\n{}", files::in_schema(file.1, schema), note(file.0, file.1));
    }
    script += &format!("{};\n{}GO\nCOMMIT TRANSACTION;\nGO\n", version_sql(schema), grants_sql(schema));
    script
}

fn lock_sql(schema: &str) -> String {
    format!(
        "DECLARE @answer int; EXEC @answer = sp_getapplock @Resource = N'turno migrate {schema}', @LockMode = 'Exclusive', \
         @LockOwner = 'Transaction', @LockTimeout = 30000; IF @answer < 0 THROW 53107, N'another migration has been running \
         for 30 s', 1"
    )
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
        "DELETE FROM {schema}.installed WHERE name = '{name}'; \
         INSERT INTO {schema}.installed (name, checksum, applied_at) VALUES ('{name}', '{sum}', SYSUTCDATETIME())"
    )
}

fn version_sql(schema: &str) -> String {
    format!("UPDATE {schema}.meta SET version = IIF(version > {VERSION}, version, {VERSION})")
}

/// Roles if they are missing, then every grant anew.
fn grants_sql(schema: &str) -> String {
    let mut sql = String::new();
    for role in ROLES {
        sql +=
            &format!("IF DATABASE_PRINCIPAL_ID(N'{schema}_{role}') IS NULL CREATE ROLE {schema}_{role};\n");
    }
    let all = ROLES.map(|role| format!("{schema}_{role}")).join(", ");
    for line in files::GRANTS.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let Some(routine) = words.next() else { continue };
        let roles = words.map(|role| format!("{schema}_{role}")).collect::<Vec<_>>().join(", ");
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
    let sql = format!("SELECT version FROM {schema}.meta");
    let rows = run(connection, &sql).await.map_err(from_call)?;
    rows.first().map(|row| get(row, "version")).transpose()
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
        let script = script("jobs");
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
    fn a_checksum_is_that_of_the_text_as_it_is_in_the_file() {
        assert_eq!(checksum(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert!(record_sql("claim", "", "jobs").contains("'e3b0c4"));
    }

    #[test]
    fn every_operation_is_granted_and_no_internal_routine() {
        let grants = grants_sql("turno");
        for (name, _) in files::OPERATIONS {
            assert!(grants.contains(&format!("GRANT EXECUTE ON OBJECT::turno.{name} TO ")), "{name}");
        }
        for (name, _) in files::INTERNAL {
            assert!(!grants.contains(&format!("turno.{name} ")), "{name}");
        }
        assert!(!grants.contains("GRANT SELECT") && !grants.contains("ON SCHEMA"));
    }

    #[test]
    fn a_schema_too_new_or_too_old_is_told_apart() {
        check_version(VERSION, 1).unwrap();
        assert!(check_version(0, 0).unwrap_err().to_string().contains("run turno migrate"));
        assert!(check_version(VERSION + 1, VERSION + 1).unwrap_err().to_string().contains("newer"));
    }
}
