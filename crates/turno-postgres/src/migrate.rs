//! Installing and upgrading the schema: one transaction, so that workers see the old or the new routines and nothing
//! between. Workers never do this by themselves.

use sha2::{Digest, Sha256};
use tokio_postgres::{IsolationLevel, Transaction};
use turno_contract::{Error, ErrorKind, MigrateReport, Result};

use crate::error::from_call;
use crate::files::{self, File};

/// The schema's version that this binary was built with.
pub(crate) const VERSION: i64 = 1;

/// The roles of an installation, with the schema's name before them (rule X2).
const ROLES: [&str; 5] = ["producer", "worker", "scheduler", "operator", "viewer"];

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
    client: &mut deadpool_postgres::Client,
    schema: &str,
    check: bool,
) -> Result<MigrateReport> {
    let transaction = client
        .build_transaction()
        .isolation_level(IsolationLevel::ReadCommitted)
        .start()
        .await
        .map_err(from_call)?;
    // Not for ever: a worker's statement ends soon, somebody's forgotten transaction does not.
    let sql = format!(
        "SET LOCAL lock_timeout = '30s'; SET LOCAL check_function_bodies = off; {}",
        lock_sql(schema)
    );
    run(&transaction, &sql).await?;
    let version_before = version(&transaction, schema).await?;
    if let Some(version) = version_before
        && version > VERSION
    {
        let message = format!("the schema has version {version}, newer than this binary's {VERSION}");
        return Err(Error::new(ErrorKind::VersionMismatch, message));
    }
    if version_before.is_none() {
        check_encoding(&transaction).await?;
        run(&transaction, &format!("CREATE SCHEMA IF NOT EXISTS {schema}")).await?;
    }
    let installed = match version_before {
        None => Vec::new(),
        Some(_) => installed(&transaction, schema).await?,
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
        run(&transaction, &files::in_schema(file.1, schema)).await?;
        run(&transaction, &record_sql(&schema_name(file), file.1, schema)).await?;
    }
    for file in files::INTERNAL.iter().chain(files::OPERATIONS) {
        if checksum_of(file.0) != Some(checksum(file.1).as_str()) {
            run(&transaction, &files::in_schema(file.1, schema)).await?;
            run(&transaction, &record_sql(file.0, file.1, schema)).await?;
            operations.push(file.0.to_owned());
        }
    }
    run(&transaction, &format!("UPDATE {schema}.meta SET version = greatest(version, {VERSION})")).await?;
    run(&transaction, &grants_sql(schema)).await?;
    if check {
        transaction.rollback().await.map_err(from_call)?;
    } else {
        transaction.commit().await.map_err(from_call)?;
    }
    Ok(MigrateReport { version_before, version: VERSION, applied, operations })
}

/// The whole installation as one script, for a person who may create what an application may not.
pub(crate) fn script(schema: &str) -> String {
    let mut script = format!(
        "-- turno, schema version {VERSION}, into schema {schema}. Run it once, as the role that shall own it.\n\
         BEGIN;\nSET LOCAL check_function_bodies = off;\n{}\nCREATE SCHEMA IF NOT EXISTS {schema};\n\n",
        lock_sql(schema)
    );
    for file in files::SCHEMA {
        script += &format!(
            "{}\n{}\n\n",
            files::in_schema(file.1, schema),
            record_sql(&schema_name(file), file.1, schema)
        );
    }
    for file in files::INTERNAL.iter().chain(files::OPERATIONS) {
        script +=
            &format!("{}\n{}\n\n", files::in_schema(file.1, schema), record_sql(file.0, file.1, schema));
    }
    script + &grants_sql(schema) + "\nCOMMIT;\n"
}

fn lock_sql(schema: &str) -> String {
    format!("SELECT pg_advisory_xact_lock(hashtextextended('turno migrate {schema}', 0));")
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
        "INSERT INTO {schema}.installed (file, checksum) VALUES ('{name}', '{sum}') \
         ON CONFLICT (file) DO UPDATE SET checksum = excluded.checksum, applied_at = clock_timestamp();"
    )
}

/// Roles if they are missing, then every grant anew. Roles belong to the whole server, so another database's migration may
/// make them at this very moment.
fn grants_sql(schema: &str) -> String {
    let mut sql = String::new();
    for role in ROLES {
        sql += &format!(
            "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{schema}_{role}') THEN CREATE ROLE \
             {schema}_{role}; END IF; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;\n"
        );
    }
    let roles = ROLES.map(|role| format!("{schema}_{role}")).join(", ");
    sql += &format!(
        "REVOKE ALL ON SCHEMA {schema} FROM PUBLIC;\nREVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC, {roles};\n\
         REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM PUBLIC, {roles};\nGRANT USAGE ON SCHEMA {schema} TO {roles};\n"
    );
    for line in files::GRANTS.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let Some(routine) = words.next() else { continue };
        let roles = words.map(|role| format!("{schema}_{role}")).collect::<Vec<_>>().join(", ");
        sql += &format!("GRANT EXECUTE ON FUNCTION {schema}.{routine} TO {roles};\n");
    }
    sql
}

async fn run(transaction: &Transaction<'_>, sql: &str) -> Result<()> {
    transaction.batch_execute(sql).await.map_err(|error| {
        let error = from_call(error);
        let hint = match error.kind() {
            ErrorKind::PermissionDenied => "; let a role that may run what turno migrate --print prints",
            _ => "",
        };
        Error::new(error.kind(), format!("migrate: {}{hint}", error.message())).with_source(error)
    })
}

async fn check_encoding(transaction: &Transaction<'_>) -> Result<()> {
    let row = transaction.query_one("SHOW server_encoding", &[]).await.map_err(from_call)?;
    match row.get::<_, &str>(0) {
        "UTF8" => Ok(()),
        other => Err(Error::invalid(format!(
            "the database's encoding is {other}; turno keeps text and needs UTF8"
        ))),
    }
}

async fn version(transaction: &Transaction<'_>, schema: &str) -> Result<Option<i64>> {
    let exists = "SELECT to_regclass($1) IS NOT NULL";
    let row = transaction.query_one(exists, &[&format!("{schema}.meta")]).await.map_err(from_call)?;
    if !row.get::<_, bool>(0) {
        return Ok(None);
    }
    let row =
        transaction.query_one(&format!("SELECT version FROM {schema}.meta"), &[]).await.map_err(from_call)?;
    Ok(Some(row.get(0)))
}

async fn installed(transaction: &Transaction<'_>, schema: &str) -> Result<Vec<(String, String)>> {
    let sql = format!("SELECT file, checksum FROM {schema}.installed");
    let rows = transaction.query(&sql, &[]).await.map_err(from_call)?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}
