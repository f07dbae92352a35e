//! The file and its schema: made by migrate alone, the same whether a binary or a person ran it, and refused when it is
//! not the one that this binary knows.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use turno_contract::{Backend, Error, ErrorKind, NewJob};
use turno_sqlite::{SqliteBackend, SqliteOptions};

async fn connect(path: &Path) -> SqliteBackend {
    SqliteBackend::connect(path.to_str().unwrap(), SqliteOptions::default()).await.unwrap()
}

struct Place {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue.db");
    Place { _folder: folder, path }
}

fn schema(path: &Path) -> Vec<(String, String)> {
    let connection = Connection::open(path).unwrap();
    let sql =
        "SELECT name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%' ORDER BY name";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

async fn refusal(path: &Path) -> Error {
    let error = connect(path).await.enqueue(&[NewJob::new("q", "k", "{}")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::VersionMismatch, "{error}");
    error
}

#[tokio::test]
async fn connecting_creates_nothing() {
    let place = place();
    assert!(refusal(&place.path).await.message().contains("run turno migrate"));
    let backend = connect(&place.path).await;
    let report = backend.migrate(true).await.unwrap();
    assert_eq!((report.version_before, report.applied.len()), (None, 1));
    assert!(!place.path.exists());
    Connection::open(&place.path).unwrap().execute_batch("CREATE TABLE mine (n INTEGER)").unwrap();
    assert!(refusal(&place.path).await.message().contains("run turno migrate"));
    assert_eq!(backend.migrate(true).await.unwrap().version_before, None);
    assert_eq!(schema(&place.path).len(), 1, "a check changes nothing");
}

#[tokio::test]
async fn a_schema_that_a_person_ran_is_the_one_that_migrate_makes() {
    let (by_hand, by_migrate) = (place(), place());
    let backend = connect(&by_migrate.path).await;
    backend.migrate(false).await.unwrap();
    Connection::open(&by_hand.path).unwrap().execute_batch(&backend.script()).unwrap();
    assert_eq!(schema(&by_hand.path), schema(&by_migrate.path));
    let report = connect(&by_hand.path).await.migrate(false).await.unwrap();
    assert_eq!((report.version_before, report.applied.len()), (Some(1), 0));
}

#[tokio::test]
async fn a_schema_of_another_version_is_refused_and_says_what_to_do() {
    let place = place();
    let backend = connect(&place.path).await;
    backend.migrate(false).await.unwrap();
    let owner = Connection::open(&place.path).unwrap();
    owner.execute_batch("UPDATE turno_meta SET version = 0").unwrap();
    assert!(refusal(&place.path).await.message().contains("run turno migrate"));
    owner.execute_batch("UPDATE turno_meta SET version = 7, oldest_binary = 1").unwrap();
    backend
        .enqueue(&[NewJob::new("q", "k", "{}")])
        .await
        .expect("a newer schema that still serves this binary");
    assert_eq!(backend.migrate(false).await.unwrap_err().kind(), ErrorKind::VersionMismatch);
    owner.execute_batch("UPDATE turno_meta SET oldest_binary = 7").unwrap();
    assert!(refusal(&place.path).await.message().contains("needs a binary of version 7"));
}

#[tokio::test]
async fn a_schema_file_that_was_changed_afterwards_is_an_error() {
    let place = place();
    let backend = connect(&place.path).await;
    backend.migrate(false).await.unwrap();
    let owner = Connection::open(&place.path).unwrap();
    owner.execute_batch("UPDATE turno_schema_file SET checksum = 'x'").unwrap();
    let error = backend.migrate(true).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::VersionMismatch, "{error}");
    assert!(error.message().contains("0001_initial.sql"), "{error}");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_at_once() {
    let place = place();
    std::fs::write(
        &place.path,
        "not a database, but long enough to be read as the header of one. ".repeat(20),
    )
    .unwrap();
    let error =
        SqliteBackend::connect(place.path.to_str().unwrap(), SqliteOptions::default()).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}

#[tokio::test]
async fn many_may_migrate_at_once() {
    let place = place();
    let mut tasks = Vec::new();
    for _ in 0..6 {
        let backend = connect(&place.path).await;
        tasks.push(tokio::spawn(async move { backend.migrate(false).await.unwrap().version }));
    }
    for task in tasks {
        assert_eq!(task.await.unwrap(), 1);
    }
}
