//! What is special about this engine: one writer, several processes, a file that is there or not, and transactions of the
//! application's own.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rusqlite::{Connection, TransactionBehavior};
use turno_contract::{
    Backend, Beat, ClaimRequest, Completion, ErrorKind, HeartbeatAnswer, NewJob, Proof, Result,
    SettledStatus, State, Token,
};
use turno_sqlite::{SettlingTransaction, SqliteBackend, SqliteOptions, complete_in, enqueue_in};

struct Database {
    folder: tempfile::TempDir,
    backend: SqliteBackend,
}

impl Database {
    async fn new() -> Self {
        Self::with(SqliteOptions::default()).await
    }

    async fn with(options: SqliteOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("queue.db");
        let backend = SqliteBackend::connect(path.to_str().unwrap(), options).await.unwrap();
        backend.migrate(false).await.unwrap();
        Database { folder, backend }
    }

    /// The application's own connection.
    fn connection(&self) -> Connection {
        Connection::open(self.folder.path().join("queue.db")).unwrap()
    }

    /// How many transactions are in the write-ahead log: frames that say how large the database is after them.
    fn commits(&self) -> usize {
        let log = std::fs::read(self.folder.path().join("queue.db-wal")).unwrap();
        let page_bytes = u32::from_be_bytes(log[8..12].try_into().unwrap()) as usize;
        log[32..].chunks_exact(24 + page_bytes).filter(|frame| frame[4..8] != [0; 4]).count()
    }

    async fn running(&self) -> Proof {
        self.backend.enqueue(&[job()]).await.unwrap();
        self.backend.claim(&ClaimRequest::one("q", "w")).await.unwrap().jobs[0].proof
    }
}

fn job() -> NewJob {
    NewJob::new("q", "k", "{}")
}

/// B32: a lock that somebody holds for too long.
#[tokio::test]
async fn a_lock_that_is_held_for_too_long_is_busy_and_loses_nothing() {
    let options = SqliteOptions { busy_timeout: Duration::from_millis(100), ..SqliteOptions::default() };
    let database = Database::with(options).await;
    let proof = database.running().await;
    let mut other = database.connection();
    let lock = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let begun = Instant::now();
    let beat = Beat { proof, started: true };
    for error in [
        database.backend.enqueue(&[job()]).await.unwrap_err(),
        database.backend.heartbeat(&[beat], Duration::from_secs(9)).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        assert!(error.is_transient());
    }
    assert!(begun.elapsed() >= Duration::from_millis(200), "each was tried for as long as it may");
    assert_eq!(database.backend.job(proof.job).await.unwrap().unwrap().state, State::Running, "reads go on");
    drop(lock);
    let answers = database.backend.heartbeat(&[beat], Duration::from_secs(9)).await.unwrap();
    assert!(matches!(answers[0], HeartbeatAnswer::Held { .. }));
}

#[tokio::test]
async fn operations_that_wait_together_commit_together() {
    let database = Database::new().await;
    let mut other = database.connection();
    let lock = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let before = database.commits();
    let enqueues = join_all((0..200).map(|_| async { database.backend.enqueue(&[job()]).await }));
    let (answers, ()) = tokio::join!(enqueues, async { drop(lock) });
    let answers: Result<Vec<_>> = answers.into_iter().collect();
    let mut ids: Vec<_> = answers.unwrap().iter().map(|answer| answer[0].id).collect();
    ids.dedup();
    assert_eq!(ids.len(), 200);
    let commits = database.commits() - before;
    assert!(commits < 50, "{commits} commits for 200 operations");
}

#[tokio::test]
async fn heartbeats_go_before_what_waits_longer() {
    let database = Database::new().await;
    let proof = database.running().await;
    let mut other = database.connection();
    let lock = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let (done, mut order) = tokio::sync::mpsc::unbounded_channel();
    let enqueues = join_all((0..1000).map(|n| {
        let (done, backend) = (done.clone(), &database.backend);
        async move {
            backend.enqueue(&[job()]).await.unwrap();
            done.send(n).unwrap();
        }
    }));
    let heartbeat = async {
        let beat = Beat { proof, started: true };
        database.backend.heartbeat(&[beat], Duration::from_secs(9)).await.unwrap();
        done.send(-1).unwrap();
    };
    tokio::join!(enqueues, heartbeat, async { drop(lock) });
    let mut place = 0;
    while order.recv().await.unwrap() != -1 {
        place += 1;
    }
    assert!(place < 600, "{place} of 1,000 operations that were sent before it were answered before it");
}

/// Rule E1.
#[tokio::test]
async fn an_enqueue_lives_and_dies_with_the_callers_transaction() {
    let database = Database::new().await;
    let mut connection = database.connection();
    connection.execute_batch("CREATE TABLE mine (n INTEGER)").unwrap();
    for commit in [false, true] {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        transaction.execute("INSERT INTO mine VALUES (1)", []).unwrap();
        assert!(enqueue_in(&transaction, &job()).unwrap().created);
        if commit {
            transaction.commit().unwrap();
        } else {
            transaction.rollback().unwrap();
        }
    }
    let mine: i64 = connection.query_row("SELECT count(*) FROM mine", [], |row| row.get(0)).unwrap();
    let jobs = database.backend.claim(&ClaimRequest::one("q", "w").limit(9)).await.unwrap().jobs;
    assert_eq!((mine, jobs.len()), (1, 1));
}

/// B32: a transaction that began as a read.
#[tokio::test]
async fn an_enqueue_in_a_transaction_that_cannot_write_says_how_to_begin_it() {
    let database = Database::new().await;
    let mut connection = database.connection();
    let transaction = connection.transaction().unwrap();
    let count = |sql: &str| transaction.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM turno_job"), 0);
    database.backend.enqueue(&[job()]).await.unwrap();
    let error = enqueue_in(&transaction, &job()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(error.message().contains("BEGIN IMMEDIATE"), "{error}");
}

/// Rule E7: what a failed call wrote is undone, and what the caller wrote stays.
#[tokio::test]
async fn an_enqueue_that_fails_leaves_the_callers_transaction_as_it_was() {
    let database = Database::new().await;
    let change = turno_contract::SettingsChange { max_attempts_limit: Some(20), ..Default::default() };
    database.backend.queue_set(Some("narrow"), &change).await.unwrap();
    let mut connection = database.connection();
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    enqueue_in(&transaction, &job()).unwrap();
    let jobs = [job(), NewJob::new("narrow", "k", "{}").max_attempts(21)];
    let error = turno_sqlite::enqueue_many_in(&transaction, &jobs).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().starts_with("row 2:"), "{error}");
    transaction.commit().unwrap();
    assert_eq!(database.backend.claim(&ClaimRequest::one("q", "w").limit(9)).await.unwrap().jobs.len(), 1);
}

/// Rule S5.
#[tokio::test]
async fn a_completion_and_the_callers_rows_commit_together() {
    let database = Database::new().await;
    let proof = database.running().await;
    let mut connection = database.connection();
    connection.execute_batch("CREATE TABLE mine (n INTEGER)").unwrap();
    let completion = Completion { proof, result: Some("1".to_owned()) };
    for status in [SettledStatus::Done, SettledStatus::Already] {
        let mut transaction = SettlingTransaction::begin(&mut connection).unwrap();
        transaction.execute("INSERT INTO mine VALUES (1)", []).unwrap();
        assert_eq!(complete_in(&mut transaction, "w", &completion).unwrap().status, status);
        transaction.commit().unwrap();
    }
    let mine: i64 = connection.query_row("SELECT count(*) FROM mine", [], |row| row.get(0)).unwrap();
    assert_eq!(mine, 2);
    assert_eq!(database.backend.job(proof.job).await.unwrap().unwrap().state, State::Succeeded);
}

/// Rule S5.
#[tokio::test]
async fn a_transaction_with_a_refused_completion_cannot_commit() {
    let database = Database::new().await;
    let proof = database.running().await;
    let mut connection = database.connection();
    connection.execute_batch("CREATE TABLE mine (n INTEGER)").unwrap();
    let stolen = Completion { proof: Proof { token: Token::random(), ..proof }, result: None };
    let mut transaction = SettlingTransaction::begin(&mut connection).unwrap();
    transaction.execute("INSERT INTO mine VALUES (1)", []).unwrap();
    let error = complete_in(&mut transaction, "w", &stolen).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LeaseLost, "{error}");
    complete_in(&mut transaction, "w", &Completion { proof, result: None }).unwrap();
    let error = transaction.commit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LeaseLost, "{error}");
    let mine: i64 = connection.query_row("SELECT count(*) FROM mine", [], |row| row.get(0)).unwrap();
    assert_eq!(mine, 0);
    assert_eq!(database.backend.job(proof.job).await.unwrap().unwrap().state, State::Running);
    assert_eq!(
        database.backend.refused(None, None, 10).await.unwrap(),
        [],
        "the ledger knows only what it is told"
    );
}

#[tokio::test]
async fn a_database_in_memory_works_as_a_file_does() {
    let backend = SqliteBackend::connect("sqlite::memory:", SqliteOptions::default()).await.unwrap();
    let error = backend.enqueue(&[job()]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::VersionMismatch);
    assert!(error.message().contains("run turno migrate"), "{error}");
    backend.migrate(false).await.unwrap();
    let mut doorbell = backend.doorbell();
    backend.wait(&["q".to_owned()], Duration::from_secs(60)).await.unwrap();
    backend.enqueue(&[job()]).await.unwrap();
    // The answer may be here a moment before the ring.
    tokio::time::timeout(Duration::from_secs(20), doorbell.changed()).await.expect("a ring").unwrap();
    let claimed = backend.claim(&ClaimRequest::one("q", "w")).await.unwrap();
    assert_eq!(backend.held(claimed.jobs[0].proof.token).await.unwrap(), claimed.jobs);
    assert_eq!(backend.stats(Duration::from_secs(60)).await.unwrap()[0].running.n, 1);
}

/// Rule W2: another process commits; nobody rings for what nobody waits for.
#[tokio::test]
async fn the_doorbell_hears_other_processes() {
    let database = Database::new().await;
    let mut doorbell = database.backend.doorbell();
    let mut connection = database.connection();
    database.backend.wait(&["q".to_owned()], Duration::from_secs(60)).await.unwrap();
    for (queue, rings) in [("elsewhere", false), ("q", true)] {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        enqueue_in(&transaction, &NewJob::new(queue, "k", "{}")).unwrap();
        transaction.commit().unwrap();
        let limit = if rings { Duration::from_secs(20) } else { Duration::from_millis(200) };
        assert_eq!(tokio::time::timeout(limit, doorbell.changed()).await.is_ok(), rings, "{queue}");
    }
}
