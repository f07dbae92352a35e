//! Migrations, which these servers cannot make in one transaction.

use mysql_async::prelude::Queryable;
use turno_contract::{Backend, ErrorKind};
use turno_mysql::MysqlBackend;

use crate::rig::{MysqlRig, new_schema, servers, session};

/// A second migration has nothing to do, and one that only checks does nothing.
#[tokio::test]
async fn a_check_changes_nothing_and_a_repeat_has_nothing_to_do() {
    for server in servers() {
        let url = format!("{server}?turno_schema={}", new_schema());
        let backend = MysqlBackend::connect(&url).await.expect("it connects");
        let check = backend.migrate(true).await.expect("a check");
        assert_eq!(check.version_before, None);
        assert_eq!(check.applied, ["schema/0001_initial"]);
        assert_eq!(backend.audit().await.expect_err("no schema").kind(), ErrorKind::VersionMismatch);
        let first = backend.migrate(false).await.expect("a migration");
        assert_eq!((&first.applied, &first.operations), (&check.applied, &check.operations));
        let again = backend.migrate(false).await.expect("another one");
        assert_eq!(again.version_before, Some(again.version));
        assert!(again.applied.is_empty() && again.operations.is_empty(), "{again:?}");
    }
}

/// Rule X2: a right that grants.txt no longer gives is taken back, and one that an administrator gave to somebody else stays.
#[tokio::test]
async fn a_migration_takes_back_what_a_role_shall_not_have() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        let mut owner = rig.session().await;
        for sql in [
            "GRANT EXECUTE ON PROCEDURE turno.claim TO turno_viewer",
            "CREATE ROLE turno_more",
            "GRANT EXECUTE ON PROCEDURE turno.claim TO turno_more",
        ] {
            owner.query_drop(rig.sql(sql)).await.expect("a right too many");
        }
        rig.mysql().migrate(false).await.expect("a migration");
        let sql = "SELECT User FROM mysql.procs_priv WHERE Db = 'turno' AND Routine_name = 'claim' AND User <> 'root' ORDER BY User";
        let holders: Vec<String> = owner.query(rig.sql(sql)).await.expect("the holders");
        let expected = [rig.sql("turno_more"), rig.sql("turno_worker")];
        owner.query_drop(rig.sql("DROP ROLE turno_more")).await.expect("it goes");
        assert_eq!(holders, expected, "{server}");
    }
}

/// A queue that nobody has named is the installation's defaults, and is there from the first day.
#[tokio::test]
async fn a_new_installation_lists_its_defaults() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        let queues = rig.mysql().queue_list().await.expect("queues");
        assert_eq!(queues.iter().map(|queue| queue.queue.as_deref()).collect::<Vec<_>>(), [None], "{server}");
    }
}

/// A migration that was cut off is done again from where it stopped.
#[tokio::test]
async fn a_migration_that_was_cut_off_can_be_repeated() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        let mut owner = rig.session().await;
        for sql in [
            "DELETE FROM turno.installed WHERE file IN ('schema/0001_initial', 'claim')",
            "DROP PROCEDURE turno.claim",
        ] {
            owner.query_drop(rig.sql(sql)).await.expect("half a migration");
        }
        let report = rig.mysql().migrate(false).await.expect("a migration");
        assert_eq!((report.applied.len(), report.operations), (1, vec!["claim".to_owned()]));
        assert!(rig.mysql().audit().await.expect("audit").is_empty());
    }
}

/// While a migration is marked a missing routine is no reason to give up.
#[tokio::test]
async fn a_missing_routine_is_transient_while_a_migration_runs() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        let mut owner = rig.session().await;
        owner.query_drop(rig.sql("DROP PROCEDURE turno.audit")).await.expect("a gap");
        let error = rig.mysql().audit().await.expect_err("a missing routine");
        assert_eq!(error.kind(), ErrorKind::VersionMismatch, "{error}");
        owner.query_drop(rig.sql("UPDATE turno.meta SET migrating = TRUE")).await.expect("a mark");
        let error = rig.mysql().audit().await.expect_err("a missing routine");
        assert!(error.is_transient(), "{error:?}");
        owner.query_drop(rig.sql("UPDATE turno.meta SET migrating = FALSE")).await.expect("no mark");
    }
}

/// Two migrations at once wait for each other.
#[tokio::test]
async fn two_migrations_at_once_make_one_installation() {
    for server in servers() {
        let url = format!("{server}?turno_schema={}", new_schema());
        let one = MysqlBackend::connect(&url).await.expect("it connects");
        let two = MysqlBackend::connect(&url).await.expect("it connects");
        let (one, two) = tokio::join!(one.migrate(false), two.migrate(false));
        let applied = one.expect("a migration").applied.len() + two.expect("a migration").applied.len();
        assert_eq!(applied, 1);
    }
}

/// A schema that is newer than the binary is not touched.
#[tokio::test]
async fn a_newer_schema_is_not_touched() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        let mut owner = session(&server).await;
        owner
            .query_drop(rig.sql("UPDATE turno.meta SET version = 99, oldest_binary = 99"))
            .await
            .expect("newer");
        let error = rig.mysql().migrate(false).await.expect_err("too new");
        assert_eq!(error.kind(), ErrorKind::VersionMismatch, "{error}");
        let fresh = MysqlBackend::connect(&turno_conformance::Rig::url(&rig)).await.expect("it connects");
        assert_eq!(fresh.audit().await.expect_err("too new").kind(), ErrorKind::VersionMismatch);
    }
}
