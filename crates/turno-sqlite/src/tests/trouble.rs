//! The writing thread when something goes wrong: a full database, a panic, a lock that somebody else holds. What it
//! promises then: nothing half done, and no operation pays for another's failure.

use std::time::Duration;

use futures_util::future::join_all;
use rusqlite::Connection;
use turno_contract::{Backend, Beat, ClaimRequest, ErrorKind, HeartbeatAnswer, JobId, NewJob, Result};

use super::backend;
use crate::error::of_engine;
use crate::lanes::Class;
use crate::work::Work;

/// Caps the database at its present size plus some pages, on the writing connection.
async fn cap(backend: &crate::SqliteBackend, pages_more: i64) {
    let cap = move |work: &Work| {
        let connection = work.connection();
        let pages: i64 =
            connection.query_row("PRAGMA page_count", [], |row| row.get(0)).map_err(of_engine)?;
        connection
            .execute_batch(&format!("PRAGMA max_page_count = {}", pages + pages_more))
            .map_err(of_engine)
    };
    backend.lanes().write(Class::Ordinary, cap).await.unwrap();
}

/// A connection that holds the right to write until it is dropped.
fn hold(folder: &tempfile::TempDir) -> Connection {
    let connection = Connection::open(folder.path().join("queue.db")).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

/// Rules E7, E1: a full disk.
#[tokio::test]
async fn a_full_database_refuses_with_a_clear_error_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let backend = backend(&folder).await;
    let small = vec![NewJob::new("q", "k", "{}"); 3];
    backend.enqueue(&small).await.unwrap();
    let claimed = backend.claim(&ClaimRequest::one("q", "w")).await.unwrap().jobs;
    cap(&backend, 5).await;
    let large = vec![NewJob::new("q", "k", format!("\"{}\"", "x".repeat(100_000))); 3];
    let error = backend.enqueue(&large).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(
        error.message().contains("full") && !error.outcome_is_unknown() && error.is_transient(),
        "{error}"
    );
    let beat = Beat { proof: claimed[0].proof, started: true };
    let answers = backend.heartbeat(&[beat], Duration::from_secs(9)).await.unwrap();
    assert!(matches!(answers[0], HeartbeatAnswer::Held { .. }), "{answers:?}");
    let stats = &backend.stats(Duration::from_secs(60)).await.unwrap()[0];
    assert_eq!((stats.ready.n, stats.running.n), (2, 1));
    assert_eq!(backend.audit().await.unwrap(), []);
    cap(&backend, 5000).await;
    assert_eq!(backend.enqueue(&large).await.unwrap().len(), 3, "there is space again");
}

/// Operations in one transaction: the one that finds the database full is the only one that fails.
#[tokio::test]
async fn an_operation_that_cannot_be_written_takes_no_other_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let backend = backend(&folder).await;
    backend.enqueue(&vec![NewJob::new("q", "k", "{}"); 8]).await.unwrap();
    cap(&backend, 5).await;
    let lock = hold(&folder);
    let large = vec![NewJob::new("q", "k", format!("\"{}\"", "x".repeat(100_000))); 3];
    let claims = join_all((0..8).map(|_| async {
        backend.claim(&ClaimRequest::one("q", "w")).await.map(|claimed| claimed.jobs.len())
    }));
    let missing = backend.cancel(JobId(999), false);
    let release = async { drop(lock) };
    let (claims, missing, large, ()) = tokio::join!(claims, missing, backend.enqueue(&large), release);
    assert_eq!(claims.into_iter().collect::<Result<Vec<_>>>().unwrap(), [1; 8]);
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(large.unwrap_err().kind(), ErrorKind::Unavailable);
    let stats = &backend.stats(Duration::from_secs(60)).await.unwrap()[0];
    assert_eq!((stats.ready.n, stats.running.n), (0, 8));
}

#[tokio::test]
async fn a_panic_is_an_error_of_its_operation_and_undone() {
    let folder = tempfile::tempdir().unwrap();
    let backend = backend(&folder).await;
    let broken = |work: &Work| -> Result<()> {
        crate::operations::enqueue::enqueue(work, &[NewJob::new("q", "k", "{}")])?;
        panic!("a bug")
    };
    let error = backend.lanes().write(Class::Ordinary, broken).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal, "{error}");
    assert_eq!(backend.stats(Duration::from_secs(60)).await.unwrap(), [], "nothing was enqueued");
    backend.enqueue(&[NewJob::new("q", "k", "{}")]).await.unwrap();
}

/// The engine gave up the whole transaction in the middle of an operation.
#[tokio::test]
async fn a_lost_transaction_is_an_error_of_the_operation_that_lost_it() {
    let folder = tempfile::tempdir().unwrap();
    let backend = backend(&folder).await;
    let lock = hold(&folder);
    let job = [NewJob::new("q", "k", "{}")];
    let before = backend.enqueue(&job);
    let loses = backend
        .lanes()
        .write(Class::Ordinary, |work| work.connection().execute_batch("ROLLBACK").map_err(of_engine));
    let after = backend.enqueue(&job);
    let release = async { drop(lock) };
    let (before, loses, after, ()) = tokio::join!(before, loses, after, release);
    let error = loses.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(before.unwrap()[0].created && after.unwrap()[0].created);
    assert_eq!(backend.stats(Duration::from_secs(60)).await.unwrap()[0].ready.n, 2);
}
