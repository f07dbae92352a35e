//! The doctor, on a real server that is broken each way.

use std::time::Duration;

use tokio_postgres::Client;
use turno_conformance::Rig;
use turno_contract::doctor::{Check, CheckStatus, DoctorOptions};
use turno_contract::{Backend, NewJob};
use turno_postgres::PostgresBackend;

use crate::rig::{PostgresRig, new_database, server_url, session, with_database};

async fn checks(backend: &PostgresBackend) -> Vec<Check> {
    backend.doctor(&DoctorOptions::default()).await
}

fn find(checks: Vec<Check>, id: &str) -> Check {
    checks.into_iter().find(|check| check.id == id).unwrap_or_else(|| panic!("no check {id}"))
}

/// Does something to the database, sees the check turn and name it, undoes it, and sees it well again.
async fn turns(rig: &PostgresRig, harm: &str, undo: &str, id: &str, status: CheckStatus, names: &str) {
    let owner = rig.owner().await;
    owner.batch_execute(harm).await.unwrap_or_else(|error| panic!("{harm}: {error:?}"));
    let check = find(checks(rig.postgres()).await, id);
    assert_eq!(check.status, status, "{harm}: {check:?}");
    assert!(check.found.contains(names), "{harm}: {check:?}");
    assert!(check.action.is_some(), "{check:?}");
    owner.batch_execute(undo).await.unwrap_or_else(|error| panic!("{undo}: {error:?}"));
    let check = find(checks(rig.postgres()).await, id);
    assert_eq!(check.status, CheckStatus::Ok, "{undo}: {check:?}");
}

/// Rule V5. A routine is compared by what the server runs, not by what migrate has noted.
#[tokio::test]
async fn what_was_changed_by_hand_is_drift() {
    let rig = PostgresRig::new().await;
    let sql = |name: &str| rig.postgres().sql(name).unwrap().to_owned();
    let (warning, critical) = (CheckStatus::Warning, CheckStatus::Critical);
    let other = sql("wait").replace("3600000", "3600001");
    turns(&rig, &other, &sql("wait"), "drift", warning, "changed: routine wait").await;
    let (harm, undo) =
        ("ALTER FUNCTION turno.stats SECURITY INVOKER", "ALTER FUNCTION turno.stats SECURITY DEFINER");
    turns(&rig, harm, undo, "drift", warning, "changed: routine stats").await;
    let (harm, undo) = (
        "ALTER FUNCTION turno.claim SET search_path = public",
        "ALTER FUNCTION turno.claim SET search_path = pg_catalog, pg_temp",
    );
    turns(&rig, harm, undo, "drift", warning, "changed: routine claim").await;
    let harm = "CREATE FUNCTION turno.claim(text) RETURNS int LANGUAGE sql AS 'SELECT 1'";
    turns(&rig, harm, "DROP FUNCTION turno.claim(text)", "drift", warning, "a second routine claim").await;
    let harm = "ALTER FUNCTION turno.attempts RENAME TO attempts_old";
    let undo = "ALTER FUNCTION turno.attempts_old RENAME TO attempts";
    turns(
        &rig,
        harm,
        undo,
        "drift",
        critical,
        "missing: routine attempts; not of turno: routine attempts_old",
    )
    .await;
    let harm = "ALTER TABLE turno.attempt DROP CONSTRAINT attempt_verb";
    let undo = "ALTER TABLE turno.attempt ADD CONSTRAINT attempt_verb CHECK (verb IN ('fail', 'release', 'expire', 'revoke'))";
    turns(&rig, harm, undo, "drift", critical, "constraint attempt_verb").await;
    let weak = "ALTER FUNCTION turno.job_is_sound RENAME TO job_was_sound";
    let undo = "ALTER FUNCTION turno.job_was_sound RENAME TO job_is_sound";
    turns(&rig, weak, undo, "drift", critical, "missing: routine job_is_sound").await;
    let harm = "ALTER TABLE turno.refused RENAME COLUMN detail TO details";
    let undo = "ALTER TABLE turno.refused RENAME COLUMN details TO detail";
    turns(&rig, harm, undo, "drift", warning, "the columns of refused").await;
    let harm = "CREATE FUNCTION public.noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; \
                CREATE TRIGGER note AFTER INSERT ON turno.job FOR EACH ROW EXECUTE FUNCTION public.noted()";
    turns(&rig, harm, "DROP TRIGGER note ON turno.job", "drift", warning, "trigger note on job").await;
}

/// Rule V5.
#[tokio::test]
async fn an_index_that_is_missing_another_or_invalid_is_critical() {
    let rig = PostgresRig::new().await;
    let critical = CheckStatus::Critical;
    let make = "CREATE INDEX job_lease ON turno.job (lease_until, id) WHERE lease_until IS NOT NULL";
    turns(&rig, "DROP INDEX turno.job_lease", make, "indexes", critical, "missing: job_lease on job").await;
    let harm = "DROP INDEX turno.job_lease; CREATE INDEX job_lease ON turno.job (lease_until) WHERE lease_until IS NOT NULL";
    let undo = format!("DROP INDEX turno.job_lease; {make}");
    turns(&rig, harm, &undo, "indexes", critical, "another one: job_lease").await;
    // What an index that could not be built concurrently leaves behind.
    let set = |valid: bool| {
        format!("UPDATE pg_index SET indisvalid = {valid} WHERE indexrelid = 'turno.job_ready'::regclass")
    };
    turns(&rig, &set(false), &set(true), "indexes", critical, "not usable: job_ready on job").await;
}

/// Rule V5.
#[tokio::test]
async fn rights_that_are_missing_or_too_many_are_found() {
    let rig = PostgresRig::new().await;
    let harm = "REVOKE EXECUTE ON FUNCTION turno.claim FROM turno_worker";
    let undo = "GRANT EXECUTE ON FUNCTION turno.claim TO turno_worker";
    turns(&rig, harm, undo, "grants", CheckStatus::Critical, "worker may not call claim").await;
    let harm = "REVOKE USAGE ON SCHEMA turno FROM turno_viewer";
    let undo = "GRANT USAGE ON SCHEMA turno TO turno_viewer";
    turns(&rig, harm, undo, "grants", CheckStatus::Critical, "viewer").await;
    let table = [
        ("ON FUNCTION turno.reprioritize", "turno_operator", "operator may call reprioritize"),
        ("ON FUNCTION turno.prune", "PUBLIC", "everybody may call prune"),
        ("ON turno.job", "turno_viewer", "rights on the table job"),
    ];
    for (what, whom, names) in table {
        let (harm, undo) = (format!("GRANT ALL {what} TO {whom}"), format!("REVOKE ALL {what} FROM {whom}"));
        turns(&rig, &harm, &undo, "grants", CheckStatus::Warning, names).await;
    }
}

/// Rule V5.
#[tokio::test]
async fn settings_of_tables_and_of_the_login_are_found() {
    let rig = PostgresRig::new().await;
    let off = "ALTER TABLE turno.job SET (autovacuum_enabled = off)";
    let on = "ALTER TABLE turno.job RESET (autovacuum_enabled)";
    turns(&rig, off, on, "vacuum", CheckStatus::Critical, "turned off for job").await;
    let (harm, undo) = ("ALTER TABLE turno.refused SET UNLOGGED", "ALTER TABLE turno.refused SET LOGGED");
    turns(&rig, harm, undo, "durability", CheckStatus::Critical, "refused").await;
    let database: String =
        rig.owner().await.query_one("SELECT current_database()::text", &[]).await.unwrap().get(0);
    let table = [
        ("default_transaction_isolation", "serializable", "isolation", CheckStatus::Warning),
        ("default_transaction_read_only", "on", "server", CheckStatus::Critical),
        ("synchronous_commit", "off", "durability", CheckStatus::Warning),
    ];
    for (name, value, id, status) in table {
        let (harm, undo) = (
            format!("ALTER DATABASE {database} SET {name} = {value}"),
            format!("SET transaction_read_only = off; ALTER DATABASE {database} RESET {name}"),
        );
        turns(&rig, &harm, &undo, id, status, "").await;
    }
}

/// Rule V5.
#[tokio::test]
async fn an_open_transaction_is_named_with_its_session() {
    let rig = PostgresRig::new().await;
    let holder = session(&rig.url()).await;
    let begin =
        "SET application_name = 'the forgotten report'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1";
    holder.batch_execute(begin).await.unwrap();
    let pid: i32 = holder.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let options =
        |ms: u64| DoctorOptions { long_transaction: Duration::from_millis(ms), ..Default::default() };
    let check = find(rig.postgres().doctor(&options(1)).await, "oldest_transaction");
    assert!(check.status >= CheckStatus::Warning, "{check:?}");
    assert!(check.found.contains(&format!("session {pid} ")) && check.found.contains("the forgotten report"));
    assert!(check.action.unwrap().contains(&format!("pg_terminate_backend({pid})")));
    assert!(rig.postgres().oldest_transaction().await.unwrap().is_some());
    let viewer = PostgresBackend::connect(&login(&rig, "", Some("viewer")).await).await.unwrap();
    let hidden = viewer.oldest_transaction().await.unwrap_err();
    assert_eq!(hidden.kind(), turno_contract::ErrorKind::PermissionDenied, "{hidden}");
    holder.batch_execute("COMMIT").await.unwrap();
    let check = find(rig.postgres().doctor(&options(60_000)).await, "oldest_transaction");
    assert_eq!(check.status, CheckStatus::Ok, "{check:?}");
    assert!(!check.found.contains("the forgotten report"), "{check:?}");
}

/// Rule V5.
#[tokio::test]
async fn a_slot_that_nobody_reads_is_a_warning() {
    let rig = PostgresRig::new().await;
    let name = format!("turno_test_{}", uuid::Uuid::new_v4().simple());
    let owner = rig.owner().await;
    owner.query("SELECT pg_create_physical_replication_slot($1::text::name, true)", &[&name]).await.unwrap();
    let check = find(checks(rig.postgres()).await, "replication_slots");
    owner.query("SELECT pg_drop_replication_slot($1::text::name)", &[&name]).await.unwrap();
    assert_eq!(check.status, CheckStatus::Warning, "{check:?}");
    assert!(check.found.contains(&name) && check.found.contains("inactive"), "{check:?}");
    let check = find(checks(rig.postgres()).await, "replication_slots");
    assert!(!check.found.contains(&name), "{check:?}");
}

/// Rule V5. While a table is locked the doctor answers in bounded time, says who holds the lock, and what it could not see.
#[tokio::test]
async fn a_locked_table_is_named_and_makes_no_look_wait_for_long() {
    let rig = PostgresRig::new().await;
    let holder = session(&rig.url()).await;
    holder.batch_execute("BEGIN; LOCK TABLE turno.job IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let answer =
        tokio::time::timeout(Duration::from_secs(60), checks(rig.postgres())).await.expect("bounded");
    let lock = find(answer.clone(), "locks");
    assert!(
        lock.status == CheckStatus::Warning && lock.found.contains("AccessExclusiveLock on job"),
        "{lock:?}"
    );
    for id in ["workers", "audit"] {
        let check = find(answer.clone(), id);
        assert!(check.status == CheckStatus::Unknown && check.found.contains("in time"), "{check:?}");
    }
    assert_eq!(find(answer, "drift").status, CheckStatus::Ok);
    holder.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(find(checks(rig.postgres()).await, "locks").status, CheckStatus::Ok);
}

/// Makes a login and answers its URL.
async fn login(rig: &PostgresRig, options: &str, role: Option<&str>) -> String {
    let name = format!("turno_test_login_{}", uuid::Uuid::new_v4().simple());
    let owner = rig.owner().await;
    owner.batch_execute(&format!("CREATE ROLE {name} LOGIN PASSWORD 'x' {options}")).await.unwrap();
    if let Some(role) = role {
        owner.batch_execute(&format!("GRANT turno_{role} TO {name}")).await.unwrap();
    }
    let url = rig.url();
    let at = url.find("://").expect("a scheme") + 3;
    let host = url[at..].find('@').map_or(at, |i| at + i + 1);
    format!("{}{name}:x@{}", &url[..at], &url[host..])
}

/// Rule V5. What a login may not see is unknown, with the right that it takes, and no error of the whole.
#[tokio::test]
async fn a_missing_right_to_look_is_unknown() {
    let rig = PostgresRig::new().await;
    rig.backend().enqueue(&[NewJob::new("q", "k", "1")]).await.unwrap();
    let nobody = PostgresBackend::connect(&login(&rig, "", None).await).await.unwrap();
    let answer = checks(&nobody).await;
    let roles = find(answer.clone(), "login");
    assert!(roles.status == CheckStatus::Critical && roles.found.contains("member of no role"), "{roles:?}");
    for (id, names) in
        [("workers", "viewer"), ("audit", "viewer"), ("oldest_transaction", "pg_read_all_stats")]
    {
        let check = find(answer.clone(), id);
        assert_eq!(check.status, CheckStatus::Unknown, "{check:?}");
        assert!(check.action.as_ref().unwrap().contains(names), "{check:?}");
    }
    for id in ["server", "drift", "indexes", "grants", "isolation", "durability", "vacuum"] {
        let check = find(answer.clone(), id);
        assert_eq!(check.status, CheckStatus::Ok, "{check:?}");
    }
    let viewer = PostgresBackend::connect(&login(&rig, "", Some("viewer")).await).await.unwrap();
    let answer = checks(&viewer).await;
    for id in ["schema", "login", "workers", "kinds", "paused", "leases", "audit"] {
        let check = find(answer.clone(), id);
        assert_eq!(check.status, CheckStatus::Ok, "{check:?}");
    }
}

/// Rule V5. The doctor's own sessions count, too: two of them beside the backend's.
#[tokio::test]
async fn a_login_that_has_nearly_used_up_its_connections_is_told() {
    let rig = PostgresRig::new().await;
    let url = login(&rig, "CONNECTION LIMIT 10", Some("viewer")).await;
    let backend = PostgresBackend::connect(&url).await.unwrap();
    let mut held: Vec<Client> = Vec::new();
    for _ in 0..6 {
        held.push(session(&url).await);
    }
    let check = find(checks(&backend).await, "connections");
    assert!(check.status == CheckStatus::Warning && check.found.contains("of this login"), "{check:?}");
}

/// Rule V5. Without a schema everything that needs none is looked at all the same.
#[tokio::test]
async fn a_missing_schema_is_one_finding() {
    let url = new_database(&server_url()).await;
    let backend = PostgresBackend::connect(&url).await.unwrap();
    let answer = checks(&backend).await;
    assert_eq!(find(answer.clone(), "schema").status, CheckStatus::Critical);
    assert_eq!(find(answer.clone(), "server").status, CheckStatus::Ok);
    assert!(answer.iter().all(|check| check.id != "drift"), "{answer:?}");
}

/// Rule V5. Two releases of turno in one database, and a schema of another name.
#[tokio::test]
async fn a_newer_schema_is_critical_and_another_name_is_the_same() {
    let url = new_database(&server_url()).await;
    let join = if url.contains('?') { '&' } else { '?' };
    let backend = PostgresBackend::connect(&format!("{url}{join}turno_schema=jobs_2")).await.unwrap();
    backend.migrate(false).await.unwrap();
    for id in ["schema", "drift", "indexes", "grants", "login"] {
        let check = find(checks(&backend).await, id);
        assert_eq!(check.status, CheckStatus::Ok, "{check:?}");
    }
    session(&url).await.batch_execute("UPDATE jobs_2.meta SET version = 9, oldest_binary = 9").await.unwrap();
    let check = find(checks(&backend).await, "schema");
    assert!(
        check.status == CheckStatus::Critical && check.found.contains("binary of version 9"),
        "{check:?}"
    );
}

/// Rule V5. A pooler in transaction mode gives one server process to two sessions in turn.
#[tokio::test]
async fn a_pooler_in_the_way_is_found() {
    let direct = PostgresRig::new().await;
    assert_eq!(find(checks(direct.postgres()).await, "pooler").status, CheckStatus::Ok);
    let Some(pooler) = std::env::var("TURNO_TEST_PGBOUNCER_URL").ok().filter(|url| !url.is_empty()) else {
        println!("through pgbouncer: not run (TURNO_TEST_PGBOUNCER_URL is not set)");
        return;
    };
    let database = direct.url().split('?').next().unwrap().rsplit('/').next().unwrap().to_owned();
    let pooled = with_database(&pooler, &database);
    let check = find(checks(&PostgresBackend::connect(&pooled).await.unwrap()).await, "pooler");
    assert!(check.status == CheckStatus::Warning && check.action.unwrap().contains("turno_listen"));
    let deaf = format!("{pooled}&turno_listen=off");
    let answer = checks(&PostgresBackend::connect(&deaf).await.unwrap()).await;
    let check = find(answer.clone(), "pooler");
    assert!(check.status == CheckStatus::Ok && check.found.contains("a pooler"), "{check:?}");
    for id in ["schema", "drift", "indexes", "grants", "workers", "audit", "locks"] {
        let check = find(answer.clone(), id);
        assert_eq!(check.status, CheckStatus::Ok, "through a pooler: {check:?}");
    }
}
