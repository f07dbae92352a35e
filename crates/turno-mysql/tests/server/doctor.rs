//! The doctor, on real servers that are broken each way (rule V5).

use std::time::Duration;

use mysql_async::prelude::Queryable;
use turno_conformance::Rig;
use turno_contract::doctor::{Check, CheckStatus, DoctorOptions};
use turno_contract::{Backend, Engine, NewJob};
use turno_mysql::MysqlBackend;

use crate::rig::{MysqlRig, servers};

async fn checks(backend: &MysqlBackend) -> Vec<Check> {
    backend.doctor(&DoctorOptions { look_max: Duration::from_secs(30), ..Default::default() }).await
}

fn find(checks: Vec<Check>, id: &str) -> Check {
    checks.into_iter().find(|check| check.id == id).unwrap_or_else(|| panic!("no check {id}"))
}

/// Does something to the installation, sees the check turn and name it, undoes it, and sees it well again.
async fn turns(rig: &MysqlRig, harm: &[&str], undo: &[&str], id: &str, status: CheckStatus, names: &str) {
    let mut owner = rig.session().await;
    for sql in harm {
        owner.query_drop(rig.sql(sql)).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let check = find(checks(rig.mysql()).await, id);
    assert_eq!(check.status, status, "{harm:?}: {check:?}");
    assert!(check.found.contains(names), "{harm:?}: {check:?}");
    for sql in undo {
        owner.query_drop(rig.sql(sql)).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let check = find(checks(rig.mysql()).await, id);
    assert_eq!(check.status, CheckStatus::Ok, "{undo:?}: {check:?}");
}

const STRICT: &str = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION,ONLY_FULL_GROUP_BY'";

/// Rule V5.
#[tokio::test]
async fn procedures_that_were_changed_by_hand_are_found() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        let (critical, warning) = (CheckStatus::Critical, CheckStatus::Warning);
        let make = rig.mysql().sql("schema_version").unwrap();
        let drop = "DROP PROCEDURE turno.schema_version";
        turns(&rig, &[drop], &[STRICT, make], "drift", critical, "missing: procedure schema_version").await;
        let other = make.replace("m.migrating", "FALSE AS migrating");
        let undo = [STRICT, drop, make];
        turns(&rig, &[STRICT, drop, &other], &undo, "drift", warning, "changed: procedure schema_version")
            .await;
        let harm = ["ALTER PROCEDURE turno.stats SQL SECURITY INVOKER"];
        let undo = ["ALTER PROCEDURE turno.stats SQL SECURITY DEFINER"];
        turns(&rig, &harm, &undo, "drift", warning, "changed: procedure stats").await;
        let lax = ["SET SESSION sql_mode = ''", drop, make];
        turns(&rig, &lax, &[STRICT, drop, make], "sql_mode", critical, "schema_version").await;
        let ghost = make.replacen("CREATE", "CREATE DEFINER = 'ghost'@'nowhere'", 1);
        turns(&rig, &[STRICT, drop, &ghost], &[STRICT, drop, make], "definer", critical, "ghost@nowhere")
            .await;
        let trigger =
            ["CREATE TRIGGER turno.noted AFTER INSERT ON turno.refused FOR EACH ROW SET @noted = 1"];
        turns(&rig, &trigger, &["DROP TRIGGER turno.noted"], "drift", warning, "trigger noted on refused")
            .await;
    }
}

/// Rule V5.
#[tokio::test]
async fn tables_and_indexes_that_were_changed_by_hand_are_found() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        let critical = CheckStatus::Critical;
        let make = "CREATE INDEX job_token ON turno.job (token)";
        let drop = "DROP INDEX job_token ON turno.job";
        turns(&rig, &[drop], &[make], "indexes", critical, "missing: job_token on job").await;
        let harm = [drop, "CREATE INDEX job_token ON turno.job (token, id)"];
        turns(&rig, &harm, &[drop, make], "indexes", critical, "another one: job_token").await;
        let (hide, show) = match rig.mysql().engine() {
            Engine::Mariadb => ("IGNORED", "NOT IGNORED"),
            _ => ("INVISIBLE", "VISIBLE"),
        };
        let harm = format!("ALTER TABLE turno.job ALTER INDEX job_lease {hide}");
        let undo = format!("ALTER TABLE turno.job ALTER INDEX job_lease {show}");
        turns(&rig, &[&harm], &[&undo], "indexes", critical, "job_lease on job (hidden)").await;
        let harm = ["ALTER TABLE turno.refused ADD COLUMN note INT"];
        let undo = ["ALTER TABLE turno.refused DROP COLUMN note"];
        turns(&rig, &harm, &undo, "drift", CheckStatus::Warning, "the columns of refused").await;
        let harm = ["ALTER TABLE turno.job DROP CONSTRAINT job_priority"];
        let undo =
            ["ALTER TABLE turno.job ADD CONSTRAINT job_priority CHECK (priority BETWEEN -1000 AND 1000)"];
        turns(&rig, &harm, &undo, "drift", critical, "constraint job_priority").await;
    }
}

/// Rule V5.
#[tokio::test]
async fn rights_that_are_missing_or_too_many_are_found() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        let harm = ["REVOKE EXECUTE ON PROCEDURE turno.claim FROM turno_worker"];
        let undo = ["GRANT EXECUTE ON PROCEDURE turno.claim TO turno_worker"];
        turns(&rig, &harm, &undo, "grants", CheckStatus::Critical, "worker may not call claim").await;
        let harm = ["GRANT EXECUTE ON PROCEDURE turno.pause TO turno_viewer"];
        let undo = ["REVOKE EXECUTE ON PROCEDURE turno.pause FROM turno_viewer"];
        turns(&rig, &harm, &undo, "grants", CheckStatus::Warning, "viewer may call pause").await;
        let harm = ["GRANT SELECT ON turno.job TO turno_viewer"];
        let undo = ["REVOKE SELECT ON turno.job FROM turno_viewer"];
        turns(&rig, &harm, &undo, "grants", CheckStatus::Warning, "rights on the table job").await;
    }
}

/// Rule V5.
#[tokio::test]
async fn an_open_transaction_is_named_and_a_locked_table_makes_no_look_wait_for_long() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        let mut holder = rig.session().await;
        holder.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT").await.unwrap();
        holder.query_drop(rig.sql("SELECT COUNT(*) FROM turno.job")).await.unwrap();
        let options = DoctorOptions { long_transaction: Duration::ZERO, ..Default::default() };
        let check = find(rig.mysql().doctor(&options).await, "oldest_transaction");
        assert!(
            check.status == CheckStatus::Critical && check.action.unwrap().contains("KILL"),
            "{}",
            check.found
        );
        assert!(rig.mysql().oldest_transaction().await.unwrap().is_some());
        holder.query_drop("COMMIT").await.unwrap();
        holder.query_drop(rig.sql("LOCK TABLES turno.job WRITE")).await.unwrap();
        let looked =
            tokio::time::timeout(Duration::from_secs(120), checks(rig.mysql())).await.expect("bounded");
        holder.query_drop("UNLOCK TABLES").await.unwrap();
        let check = find(looked.clone(), "locks");
        assert!(check.status == CheckStatus::Warning, "{server}: {check:?}");
        assert_eq!(find(looked.clone(), "workers").status, CheckStatus::Unknown);
        assert_eq!(find(looked, "drift").status, CheckStatus::Ok);
        assert_eq!(find(checks(rig.mysql()).await, "locks").status, CheckStatus::Ok);
    }
}

/// Rule V5.
#[tokio::test]
async fn what_a_login_may_not_see_is_unknown_and_a_large_payload_needs_a_large_packet() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        rig.backend().enqueue(&[NewJob::new("q", "k", "1")]).await.unwrap();
        let mut owner = rig.session().await;
        let (user, role) = (format!("{}_doc", rig.schema()), format!("{}_viewer", rig.schema()));
        let word = if rig.mysql().engine() == Engine::Mariadb { "FOR" } else { "TO" };
        for sql in [
            format!("CREATE USER {user}@'127.0.0.1'"),
            format!("GRANT {role} TO {user}@'127.0.0.1'"),
            format!("SET DEFAULT ROLE {role} {word} {user}@'127.0.0.1'"),
        ] {
            owner.query_drop(sql).await.unwrap();
        }
        let url = server.replacen("//root@", &format!("//{user}@"), 1);
        let url = format!("{url}?turno_schema={}&turno_payload_bytes_max=1000000000", rig.schema());
        let viewer = checks(&MysqlBackend::connect(&url).await.unwrap()).await;
        owner.query_drop(format!("DROP USER {user}@'127.0.0.1'")).await.unwrap();
        for (id, names) in [("drift", "owner"), ("grants", "mysql.*"), ("oldest_transaction", "PROCESS")] {
            let check = find(viewer.clone(), id);
            assert_eq!(check.status, CheckStatus::Unknown, "{server}: {check:?}");
            assert!(check.action.as_ref().unwrap().contains(names), "{server}: {check:?}");
        }
        for id in ["server", "schema", "login", "workers", "kinds", "paused", "leases", "audit", "locks"] {
            let check = find(viewer.clone(), id);
            assert_eq!(check.status, CheckStatus::Ok, "{server}: {check:?}");
        }
        assert!(find(viewer.clone(), "login").found.contains("viewer"));
        assert_eq!(find(viewer, "packet").status, CheckStatus::Warning);
    }
}

/// Rule V5.
#[tokio::test]
async fn a_missing_schema_is_one_finding() {
    for server in servers() {
        let backend = MysqlBackend::connect(&format!("{server}?turno_schema=no_such_one")).await.unwrap();
        let answer = checks(&backend).await;
        let check = find(answer.clone(), "schema");
        assert_eq!(check.status, CheckStatus::Critical, "{server}: {check:?}");
        assert_eq!(find(answer.clone(), "server").status, CheckStatus::Ok);
        assert!(answer.iter().all(|check| check.id != "drift"), "{answer:?}");
    }
}
