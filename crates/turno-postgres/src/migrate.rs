//! Installing and upgrading the schema. What can be is done in one transaction, so that workers see the old or the new
//! routines and nothing between; an index that is built while everybody works cannot be, and comes before it. Workers
//! never do this by themselves.

use std::time::{Duration, Instant};

use deadpool_postgres::Client;
use tokio_postgres::types::Type;
use tokio_postgres::{IsolationLevel, Transaction};
use turno_contract::schema_files::{Ahead, File, Part, Plan, SchemaFiles, checksum, index_name, schema_name};
use turno_contract::{Error, ErrorKind, MigrateReport, Result};

use crate::call::Caller;
use crate::error::from_call;
use crate::files;

/// The roles of an installation, with the schema's name before them (rule X2).
const ROLES: [&str; 5] = ["producer", "worker", "scheduler", "operator", "viewer"];

/// How long one statement of a migration waits for a lock: whoever comes after it waits as long, claims among them.
const LOCK_WAIT_MS: u64 = 500;
/// How long a migration tries to get its locks, with pauses in which everybody else goes on.
const LOCK_PATIENCE: Duration = Duration::from_secs(60);
/// Between two tries.
const LOCK_PAUSE_MS: std::ops::Range<u64> = 500..1500;
/// How often is looked whether somebody else's build of an index has ended.
const BUILD_PAUSE: Duration = Duration::from_millis(500);

/// The files of this binary.
pub(crate) fn schema_files(ahead: Option<Ahead>) -> SchemaFiles {
    SchemaFiles::new(files::SCHEMA, [files::INTERNAL, files::OPERATIONS], files::GRANTS, ahead)
}

/// Brings the schema to this binary's version, or with `check` says what that would do.
///
/// One connection does nothing but hold the lock that keeps other migrations away: in a transaction, so that a pooler does
/// not take it away.
pub(crate) async fn migrate(
    caller: &Caller,
    schema: &str,
    ours: &SchemaFiles,
    check: bool,
) -> Result<MigrateReport> {
    let mut client = caller.connection().await?;
    if check {
        let (version_before, plan) = look(&client, schema, ours).await?;
        return Ok(plan.report(version_before, ours));
    }
    let mut keeper = caller.connection().await?;
    let keeper = keeper.transaction().await.map_err(from_call)?;
    run(&keeper, &keep_sql(schema)).await?;
    ours.step("locked");
    let (version_before, plan) = look(&client, schema, ours).await?;
    if version_before.is_none() {
        check_encoding(&client).await?;
    }
    let mut files = Vec::new();
    for part in plan.parts() {
        match part {
            Part::Together(more) => files.extend(more),
            Part::Online(file) => {
                patiently(&mut client, schema, ours, &files, None).await?;
                files.clear();
                build(&client, schema, ours, &file).await?;
                // Without its lock a migration must not go on.
                run(&keeper, "SELECT 1").await?;
            }
        }
    }
    patiently(&mut client, schema, ours, &files, Some(&plan)).await?;
    keeper.commit().await.map_err(from_call)?;
    Ok(plan.report(version_before, ours))
}

/// What is there, and what is missing. It takes no lock, so that a check disturbs nobody. A pooler may give each statement to
/// another session, so none is prepared.
async fn look(client: &Client, schema: &str, ours: &SchemaFiles) -> Result<(Option<i64>, Plan)> {
    let version_before = version(client, schema).await?;
    let installed = match version_before {
        None => Vec::new(),
        Some(_) => installed(client, schema).await?,
    };
    Ok((version_before, ours.plan(version_before, &installed)?))
}

/// Runs these schema files, and with the plan everything that ends a migration, in one transaction; again from its
/// beginning if a lock was not to be had.
async fn patiently(
    client: &mut Client,
    schema: &str,
    ours: &SchemaFiles,
    files: &[File],
    plan: Option<&Plan>,
) -> Result<()> {
    let begun = Instant::now();
    loop {
        match together(client, schema, ours, files, plan).await {
            Err(error) if error.kind() == ErrorKind::Busy && begun.elapsed() < LOCK_PATIENCE => {
                tracing::warn!(%error, "a lock was not to be had; trying again");
                tokio::time::sleep(Duration::from_millis(fastrand::u64(LOCK_PAUSE_MS))).await;
            }
            Err(error) if error.kind() == ErrorKind::Busy => {
                let who = holder(client, schema).await.unwrap_or_default();
                let message = format!(
                    "{}; tried for {} s, and nothing was changed{who}",
                    error.message(),
                    LOCK_PATIENCE.as_secs()
                );
                return Err(Error::new(ErrorKind::Busy, message).with_source(error));
            }
            result => return result,
        }
    }
}

async fn together(
    client: &mut Client,
    schema: &str,
    ours: &SchemaFiles,
    files: &[File],
    plan: Option<&Plan>,
) -> Result<()> {
    let transaction = client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start();
    let transaction = transaction.await.map_err(from_call)?;
    run(&transaction, &format!("SET LOCAL lock_timeout = '{LOCK_WAIT_MS}ms'; {BEGIN_SQL}")).await?;
    run(&transaction, &format!("CREATE SCHEMA IF NOT EXISTS {schema}")).await?;
    for file in files {
        ours.step(file.0);
        run(&transaction, &files::in_schema(file.1, schema)).await?;
        run(&transaction, &record_sql(&schema_name(file), file.1, schema)).await?;
    }
    if let Some(plan) = plan {
        for file in &plan.routines {
            ours.step(file.0);
            run(&transaction, &files::in_schema(file.1, schema)).await?;
            run(&transaction, &record_sql(file.0, file.1, schema)).await?;
        }
        ours.step("grants");
        let version = ours.version;
        run(&transaction, &format!("UPDATE {schema}.meta SET version = greatest(version, {version})"))
            .await?;
        run(&transaction, &grants_sql(schema, ours)).await?;
    }
    ours.step("commit");
    transaction.commit().await.map_err(from_call)
}

/// Builds one index while everybody works. What a build that was cut off left behind is removed first: it is kept up by
/// every write and serves no read.
async fn build(client: &Client, schema: &str, ours: &SchemaFiles, file: &File) -> Result<()> {
    let index = index_name(file);
    let exists = "SELECT i.indisvalid, EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid) \
                  FROM pg_index i WHERE i.indexrelid = to_regclass($1)";
    let full_name = format!("{schema}.{index}");
    ours.step(file.0);
    let valid = loop {
        let row = client.query_typed_opt(exists, &[(&full_name, Type::TEXT)]).await.map_err(from_call)?;
        let Some(row) = row else { break None };
        // A server goes on building when the program that asked for it is dead.
        if !row.get::<_, bool>(1) {
            break Some(row.get::<_, bool>(0));
        }
        tokio::time::sleep(BUILD_PAUSE).await;
    };
    if valid == Some(false) {
        run(client, &format!("DROP INDEX CONCURRENTLY {full_name}")).await?;
    }
    if valid != Some(true) {
        tracing::info!(
            index,
            "building while everybody works; pg_stat_progress_create_index shows how far it is"
        );
        run(client, &files::in_schema(file.1, schema)).await?;
    }
    ours.step("built");
    run(client, &record_sql(&schema_name(file), file.1, schema)).await
}

/// Who holds a lock on a table of the installation for the longest, as the end of a message.
async fn holder(client: &Client, schema: &str) -> Option<String> {
    let sql = "SELECT a.pid, coalesce(a.application_name, ''), coalesce(a.state, ''), coalesce(age(clock_timestamp(), a.xact_start)::text, '') \
               FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_stat_activity a USING (pid) \
               WHERE l.granted AND c.relnamespace = to_regnamespace($1) AND a.pid <> pg_backend_pid() ORDER BY a.xact_start LIMIT 1";
    let row = client.query_typed_opt(sql, &[(&schema, Type::TEXT)]).await.ok()??;
    let (pid, name, state, age): (i32, String, String, String) =
        (row.get(0), row.get(1), row.get(2), row.get(3));
    Some(format!("; in the way is process {pid} ({name}, {state}) with a transaction of {age}"))
}

/// The whole installation as one script, for a person who may create what an application may not.
pub(crate) fn script(schema: &str, ours: &SchemaFiles) -> String {
    let mut script = format!(
        "-- turno, schema version {}, into schema {schema}. Run it once, as the role that shall own it.\n\
         BEGIN;\n{BEGIN_SQL}\n{}\nCREATE SCHEMA IF NOT EXISTS {schema};\n\n",
        ours.version,
        lock_sql(schema)
    );
    for file in ours.schema() {
        // Nobody works there yet, and a transaction cannot build an index in any other way.
        let text = files::in_schema(file.1, schema).replace("INDEX CONCURRENTLY", "INDEX");
        script += &format!("{text}\n{}\n\n", record_sql(&schema_name(file), file.1, schema));
    }
    for file in ours.routines() {
        script +=
            &format!("{}\n{}\n\n", files::in_schema(file.1, schema), record_sql(file.0, file.1, schema));
    }
    script + &grants_sql(schema, ours) + "\nCOMMIT;\n"
}

/// Routines call each other in any order.
const BEGIN_SQL: &str = "SET LOCAL check_function_bodies = off;";

/// Not for ever: another migration ends soon. The session waits idle in its transaction while an index is built.
fn keep_sql(schema: &str) -> String {
    let wait = "SET LOCAL lock_timeout = '30s'; SET LOCAL idle_in_transaction_session_timeout = 0;";
    format!("{wait} {}", lock_sql(schema))
}

fn lock_sql(schema: &str) -> String {
    format!("SELECT pg_advisory_xact_lock(hashtextextended('turno migrate {schema}', 0));")
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
fn grants_sql(schema: &str, ours: &SchemaFiles) -> String {
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
    for (routine, roles) in ours.grants() {
        let roles = roles.iter().map(|role| format!("{schema}_{role}")).collect::<Vec<_>>().join(", ");
        sql += &format!("GRANT EXECUTE ON FUNCTION {schema}.{routine} TO {roles};\n");
    }
    sql
}

async fn run(session: &impl Session, sql: &str) -> Result<()> {
    session.batch(sql).await.map_err(|error| {
        let error = from_call(error);
        let hint = match error.kind() {
            ErrorKind::PermissionDenied => "; let a role that may run what turno migrate --print prints",
            _ => "",
        };
        Error::new(error.kind(), format!("migrate: {}{hint}", error.message())).with_source(error)
    })
}

/// A connection, or a transaction on one.
trait Session {
    async fn batch(&self, sql: &str) -> Result<(), tokio_postgres::Error>;
}

impl Session for Transaction<'_> {
    async fn batch(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.batch_execute(sql).await
    }
}

impl Session for deadpool_postgres::Transaction<'_> {
    async fn batch(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.batch_execute(sql).await
    }
}

impl Session for Client {
    async fn batch(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.batch_execute(sql).await
    }
}

async fn check_encoding(client: &Client) -> Result<()> {
    let row = client.query_typed_one("SHOW server_encoding", &[]).await.map_err(from_call)?;
    match row.get::<_, &str>(0) {
        "UTF8" => Ok(()),
        other => Err(Error::invalid(format!(
            "the database's encoding is {other}; turno keeps text and needs UTF8"
        ))),
    }
}

async fn version(client: &Client, schema: &str) -> Result<Option<i64>> {
    let exists = "SELECT to_regclass($1) IS NOT NULL";
    let meta = format!("{schema}.meta");
    let row = client.query_typed_one(exists, &[(&meta, Type::TEXT)]).await.map_err(from_call)?;
    if !row.get::<_, bool>(0) {
        return Ok(None);
    }
    let sql = format!("SELECT version FROM {schema}.meta");
    let row = client.query_typed_one(&sql, &[]).await.map_err(from_call)?;
    Ok(Some(row.get(0)))
}

async fn installed(client: &Client, schema: &str) -> Result<Vec<(String, String)>> {
    let sql = format!("SELECT file, checksum FROM {schema}.installed");
    let rows = client.query_typed(&sql, &[]).await.map_err(from_call)?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}
