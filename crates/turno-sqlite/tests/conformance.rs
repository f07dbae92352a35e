//! The conformance suite on a database file of its own. The rest of this file is how the suite ages rows, brings rows by
//! plain SQL and opens a caller's transaction here.

use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use tokio::sync::oneshot;
use turno_conformance::{Rig, RigTransaction};
use turno_contract::{
    Backend, BoxedBackend, Completion, Enqueued, Error, ErrorKind, JobId, NewJob, Result, Settled,
};
use turno_sqlite::{SettlingTransaction, SqliteBackend, SqliteOptions};

/// How long anybody here waits for the one writer's turn: one case enqueues 65,536 jobs in one transaction.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    turno_conformance::main("sqlite", || async { Arc::new(SqliteRig::new().await) as Arc<dyn Rig> })
}

struct SqliteRig {
    folder: tempfile::TempDir,
    backend: BoxedBackend,
    owner: Mutex<Connection>,
}

impl SqliteRig {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the database");
        let path = folder.path().join("conformance.db");
        let options = SqliteOptions { busy_timeout: PATIENCE, ..SqliteOptions::default() };
        let backend = SqliteBackend::connect(path.to_str().expect("a path in UTF-8"), options).await;
        let backend = Arc::new(backend.expect("a connection"));
        backend.migrate(false).await.expect("a schema");
        SqliteRig { owner: Mutex::new(open(&folder)), folder, backend }
    }
}

fn open(folder: &tempfile::TempDir) -> Connection {
    let connection = Connection::open(folder.path().join("conformance.db")).expect("a connection");
    connection.busy_timeout(PATIENCE).expect("a busy timeout");
    connection
}

/// The columns that hold an instant, by table; `rank` moves with them.
const INSTANTS: &[(&str, &[&str])] = &[
    (
        "turno_job",
        &[
            "rank",
            "run_at",
            "first_due_at",
            "claimed_at",
            "started_at",
            "lease_until",
            "run_until",
            "cancel_requested_at",
            "created_at",
        ],
    ),
    (
        "turno_finished_job",
        &["claimed_at", "started_at", "run_at", "first_due_at", "created_at", "finished_at"],
    ),
    ("turno_attempt", &["claimed_at", "started_at", "ended_at", "run_at"]),
    ("turno_refused", &["first_at", "last_at"]),
    ("turno_schedule", &["done_until", "next_at", "paused_at", "last_at", "created_at", "updated_at"]),
];

#[async_trait]
impl Rig for SqliteRig {
    fn backend(&self) -> BoxedBackend {
        self.backend.clone()
    }

    fn table(&self, name: &str) -> String {
        format!("turno_{name}")
    }

    async fn age(&self, queue: &str, by: Duration) {
        let mut owner = self.owner.lock().expect("the owner's connection");
        let transaction =
            owner.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).expect("a transaction");
        for (table, columns) in INSTANTS {
            let moved: Vec<String> =
                columns.iter().map(|column| format!("{column} = {column} - ?1")).collect();
            let sql = format!("UPDATE {table} SET {} WHERE queue = ?2", moved.join(", "));
            transaction.execute(&sql, (by.as_micros() as i64, queue)).expect("aged rows");
        }
        let sql = "UPDATE turno_schedule_run SET fired_at = fired_at - ?1
                   WHERE schedule IN (SELECT name FROM turno_schedule WHERE queue = ?2)";
        transaction.execute(sql, (by.as_micros() as i64, queue)).expect("aged records of instants");
        transaction.commit().expect("a commit");
    }

    async fn age_reaper(&self, by: Duration) {
        let sql = format!(
            "UPDATE turno_reaper SET last_reap_at = last_reap_at - {0}, hold_from = hold_from - {0}",
            by.as_micros()
        );
        self.execute(&sql).await.expect("an aged reaper");
    }

    async fn raise_ids(&self, above: i64) {
        let sql = format!("UPDATE sqlite_sequence SET seq = max(seq, {above}) WHERE name = 'turno_job'");
        if self.execute(&sql).await.expect("a sequence") == 0 {
            let sql = format!("INSERT INTO sqlite_sequence (name, seq) VALUES ('turno_job', {above})");
            self.execute(&sql).await.expect("a sequence");
        }
    }

    async fn execute(&self, sql: &str) -> Result<u64, String> {
        let owner = self.owner.lock().expect("the owner's connection");
        owner.execute(sql, []).map(|rows| rows as u64).map_err(|error| error.to_string())
    }

    async fn scalar(&self, sql: &str) -> Option<i64> {
        use rusqlite::OptionalExtension;
        let owner = self.owner.lock().expect("the owner's connection");
        owner.query_row(sql, [], |row| row.get(0)).optional().expect("a query").flatten()
    }

    async fn begin(&self) -> Box<dyn RigTransaction> {
        let connection = open(&self.folder);
        let (steps, inbox) = channel();
        std::thread::spawn(move || serve(connection, inbox));
        Box::new(OtherTransaction { steps })
    }

    fn row_locks(&self) -> bool {
        false
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.folder.path().join("conformance.db").display())
    }
}

/// A transaction on a thread of its own, since it borrows its connection.
struct OtherTransaction {
    steps: Sender<Step>,
}

enum Step {
    Enqueue(NewJob, oneshot::Sender<Result<Enqueued>>),
    Complete(String, Completion, oneshot::Sender<Result<Settled>>),
    Lock(oneshot::Sender<Result<()>>),
    Commit(oneshot::Sender<Result<()>>),
    Rollback(oneshot::Sender<Result<()>>),
}

/// Takes the right to write at the first step, so that an idle transaction holds up nobody.
fn serve(mut connection: Connection, inbox: Receiver<Step>) {
    let Ok(first) = inbox.recv() else { return };
    let mut transaction = SettlingTransaction::begin(&mut connection).expect("the right to write");
    for step in std::iter::once(first).chain(inbox) {
        match step {
            Step::Enqueue(job, answer) => drop(answer.send(transaction.enqueue(&job))),
            Step::Complete(worker, completion, answer) => {
                drop(answer.send(turno_sqlite::complete_in(&mut transaction, &worker, &completion)));
            }
            Step::Lock(answer) => drop(answer.send(Ok(()))),
            Step::Commit(answer) => return drop(answer.send(transaction.commit())),
            Step::Rollback(answer) => return drop(answer.send(transaction.rollback())),
        }
    }
}

impl OtherTransaction {
    async fn ask<T>(&self, step: impl FnOnce(oneshot::Sender<Result<T>>) -> Step) -> Result<T> {
        let (sender, receiver) = oneshot::channel();
        let gone = || Error::new(ErrorKind::Internal, "the transaction's thread has ended");
        self.steps.send(step(sender)).map_err(|_| gone())?;
        receiver.await.map_err(|_| gone())?
    }
}

#[async_trait]
impl RigTransaction for OtherTransaction {
    async fn enqueue(&mut self, job: &NewJob) -> Result<Enqueued> {
        self.ask(|answer| Step::Enqueue(job.clone(), answer)).await
    }

    async fn complete(&mut self, worker: &str, completion: &Completion) -> Result<Settled> {
        self.ask(|answer| Step::Complete(worker.to_owned(), completion.clone(), answer)).await
    }

    async fn lock(&mut self, _job: JobId) -> Result<()> {
        self.ask(Step::Lock).await
    }

    async fn commit(self: Box<Self>) -> Result<()> {
        self.ask(Step::Commit).await
    }

    async fn rollback(self: Box<Self>) -> Result<()> {
        self.ask(Step::Rollback).await
    }
}
