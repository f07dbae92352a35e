//! Installing, upgrading, refusing.

use std::sync::Arc;
use std::time::Duration;

use turno_conformance::Rig;
use turno_contract::{Backend, ErrorKind, NewJob};
use turno_postgres::PostgresBackend;

use crate::rig::{PostgresRig, new_database, server_url, session};

/// The printed script makes what migrate makes: afterwards there is nothing left to do.
#[tokio::test]
async fn the_printed_script_is_the_installation() {
    let url = new_database(&server_url()).await;
    let backend = PostgresBackend::connect(&url).await.unwrap();
    session(&url).await.batch_execute(&backend.script()).await.unwrap();
    let report = backend.migrate(true).await.unwrap();
    assert_eq!((report.version_before, report.version), (Some(1), 1));
    assert!(report.applied.is_empty() && report.operations.is_empty(), "{report:?}");
    backend.enqueue(&[NewJob::new("q", "k", "1")]).await.unwrap();
}

/// `check` changes nothing.
#[tokio::test]
async fn a_check_says_what_is_to_do_and_does_nothing() {
    let url = new_database(&server_url()).await;
    let backend = PostgresBackend::connect(&url).await.unwrap();
    for _ in 0..2 {
        let report = backend.migrate(true).await.unwrap();
        assert_eq!((report.version_before, report.applied.len()), (None, 1));
    }
    let error = backend.enqueue(&[NewJob::new("q", "k", "1")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::VersionMismatch, "{error}");
    assert!(error.to_string().contains("turno migrate"), "{error}");
}

/// Several may migrate at once, and a repeated one has nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn migrations_at_once_wait_for_each_other() {
    let url = new_database(&server_url()).await;
    let backend = Arc::new(PostgresBackend::connect(&url).await.unwrap());
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let backend = backend.clone();
            tokio::spawn(async move { backend.migrate(false).await.unwrap() })
        })
        .collect();
    let mut first = 0;
    for task in tasks {
        first += usize::from(task.await.unwrap().version_before.is_none());
    }
    assert_eq!(first, 1);
}

/// Two installations in one database are two trust domains with roles of their own.
#[tokio::test]
async fn another_schema_is_another_installation() {
    let url = new_database(&server_url()).await;
    let name = format!("jobs_{}", &uuid::Uuid::new_v4().simple().to_string()[..12]);
    let join = if url.contains('?') { '&' } else { '?' };
    let first = PostgresBackend::connect(&url).await.unwrap();
    let second = PostgresBackend::connect(&format!("{url}{join}turno_schema={name}")).await.unwrap();
    first.migrate(false).await.unwrap();
    second.migrate(false).await.unwrap();
    first.enqueue(&[NewJob::new("q", "k", "1")]).await.unwrap();
    assert!(second.stats(Duration::from_secs(60)).await.unwrap().is_empty());
    second.enqueue(&[NewJob::new("q", "k", "2")]).await.unwrap();
    let client = session(&url).await;
    let sql = format!("SELECT count(*) FROM pg_roles WHERE rolname LIKE '{name}\\_%'");
    assert_eq!(client.query_one(&sql, &[]).await.unwrap().get::<_, i64>(0), 5);
    let clean = format!(
        "DROP SCHEMA {name} CASCADE; DROP ROLE {name}_producer, {name}_worker, {name}_scheduler, {name}_operator, {name}_viewer"
    );
    client.batch_execute(&clean).await.unwrap();
}

/// A schema that is newer, or was edited, is left alone with a message that says which.
#[tokio::test]
async fn a_schema_that_does_not_fit_is_refused() {
    let rig = PostgresRig::new().await;
    let fresh = || async { PostgresBackend::connect(&rig.url()).await.unwrap() };
    for (change, undo, what) in [
        ("UPDATE turno.meta SET version = 0", "UPDATE turno.meta SET version = 1", "run turno migrate"),
        (
            "UPDATE turno.meta SET version = 3, oldest_binary = 2",
            "UPDATE turno.meta SET version = 1, oldest_binary = 1",
            "needs a binary of version 2 or newer",
        ),
    ] {
        rig.execute(change).await.unwrap();
        let error = fresh().await.stats(Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::VersionMismatch, "{error}");
        assert!(error.to_string().contains(what), "{error}");
        rig.execute(undo).await.unwrap();
    }
    // Newer, but it says that this binary may still use it.
    rig.execute("UPDATE turno.meta SET version = 3").await.unwrap();
    fresh().await.stats(Duration::from_secs(1)).await.unwrap();
    let error = fresh().await.migrate(false).await.unwrap_err();
    assert!(error.to_string().contains("newer than this binary"), "{error}");
    rig.execute("UPDATE turno.meta SET version = 1").await.unwrap();
    rig.execute("UPDATE turno.installed SET checksum = 'x' WHERE file = 'schema/0001_initial'")
        .await
        .unwrap();
    let error = fresh().await.migrate(false).await.unwrap_err();
    assert!(error.to_string().contains("0001_initial was changed"), "{error}");
}

/// A routine whose text changed is created anew, and grants that were lost come back.
#[tokio::test]
async fn a_changed_routine_is_made_anew_with_its_grants() {
    let rig = PostgresRig::new().await;
    rig.execute("UPDATE turno.installed SET checksum = 'x' WHERE file = 'enqueue'").await.unwrap();
    rig.execute("REVOKE EXECUTE ON FUNCTION turno.pause FROM turno_operator").await.unwrap();
    let report = rig.backend().migrate(false).await.unwrap();
    assert_eq!(report.operations, ["enqueue"]);
    let sql = "SELECT has_function_privilege('turno_operator', 'turno.pause(text)', 'EXECUTE')::int";
    assert_eq!(rig.scalar(sql).await, Some(1));
}

/// A wrong address or database is said in one line without the password.
#[tokio::test]
async fn a_wrong_url_is_said_in_one_line() {
    let missing = crate::rig::with_database(&server_url(), "no_such_database");
    for url in
        ["postgres://u:secret@127.0.0.1:1/x", missing.as_str(), "postgres://u:secret@127.0.0.1:1/x?bad=1"]
    {
        let error = PostgresBackend::connect(url).await.map(drop).unwrap_err();
        let text = format!("{error}");
        assert!(!text.contains("secret") && !text.contains('\n') && text.len() > 20, "{text}");
        assert_ne!(error.kind(), ErrorKind::Internal, "{text}");
    }
}
