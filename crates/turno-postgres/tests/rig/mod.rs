//! A database of its own on the test server, with the schema in place; shared by the tests of this crate.

#![allow(dead_code, reason = "each test binary uses another part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::OnceCell;
use tokio_postgres::{Client, NoTls};
use turno_conformance::{Rig, RigTransaction};
use turno_contract::{
    Backend, BoxedBackend, Completion, Enqueued, Error, ErrorKind, JobId, NewJob, Result, Settled,
};
use turno_postgres::PostgresBackend;

/// Where the test server is. The tests cannot run without one, and must not pass without running.
pub fn server_url() -> String {
    std::env::var("TURNO_TEST_POSTGRES_URL")
        .expect("TURNO_TEST_POSTGRES_URL names a server where databases may be made; scripts/test starts one")
}

/// A second server, of a newer version, which may be missing.
pub fn newer_server_url() -> Option<String> {
    std::env::var("TURNO_TEST_POSTGRES18_URL").ok().filter(|url| !url.is_empty())
}

/// The server's URL with another database.
pub fn with_database(url: &str, database: &str) -> String {
    let (base, query) =
        url.split_once('?').map_or((url, String::new()), |(base, query)| (base, format!("?{query}")));
    let end = base.find("://").and_then(|i| base[i + 3..].find('/').map(|j| i + 3 + j)).unwrap_or(base.len());
    format!("{}/{database}{query}", &base[..end])
}

fn name_of_database(url: &str) -> String {
    let base = url.split('?').next().unwrap_or(url);
    base.rsplit('/').next().expect("a database in the URL").to_owned()
}

/// A connection of the owner, driven by a task.
pub async fn session(url: &str) -> Client {
    let (client, connection) =
        tokio_postgres::connect(url, NoTls).await.expect("a connection to the test server");
    tokio::spawn(connection);
    client
}

/// Makes an empty database on this server and answers its URL.
pub async fn new_database(server_url: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("turno_test_{}_{number}_{}", std::process::id(), uuid::Uuid::new_v4().simple());
    let server = session(server_url).await;
    server.batch_execute(&format!("CREATE DATABASE {name}")).await.expect("a new database");
    with_database(server_url, &name)
}

pub struct PostgresRig {
    url: String,
    backend: Arc<PostgresBackend>,
    owner: OnceCell<Client>,
}

impl PostgresRig {
    pub async fn new() -> Self {
        Self::on(&server_url()).await
    }

    pub async fn on(server_url: &str) -> Self {
        Self::through(server_url, server_url).await
    }

    /// The backend reaches the server through a pooler, the owner of the tables does not.
    pub async fn through(server_url: &str, pooler_url: &str) -> Self {
        let url = new_database(server_url).await;
        let pooled = with_database(pooler_url, &name_of_database(&url));
        let join = if pooled.contains('?') { '&' } else { '?' };
        let listen = percent_encoding::utf8_percent_encode(&url, percent_encoding::NON_ALPHANUMERIC);
        let pooled = format!("{pooled}{join}turno_listen={listen}");
        let backend = PostgresBackend::connect(&pooled).await.expect("the backend connects");
        backend.migrate(false).await.expect("the schema is installed");
        PostgresRig { url, backend: Arc::new(backend), owner: OnceCell::new() }
    }

    pub fn postgres(&self) -> &PostgresBackend {
        &self.backend
    }

    pub async fn owner(&self) -> &Client {
        self.owner.get_or_init(|| session(&self.url)).await
    }
}

#[async_trait]
impl Rig for PostgresRig {
    fn backend(&self) -> BoxedBackend {
        self.backend.clone()
    }

    fn table(&self, name: &str) -> String {
        format!("turno.{name}")
    }

    async fn age(&self, queue: &str, by: Duration) {
        let us = by.as_micros();
        let i = format!("({us} * interval '1 microsecond')");
        let q = format!("queue = '{}'", queue.replace('\'', "''"));
        let sql = format!(
            "UPDATE turno.job SET run_at = run_at - {i}, first_due_at = first_due_at - {i}, created_at = created_at - {i},
                 claimed_at = claimed_at - {i}, started_at = started_at - {i}, lease_until = lease_until - {i},
                 run_until = run_until - {i}, cancel_requested_at = cancel_requested_at - {i}, rank = rank - {us} WHERE {q};
             UPDATE turno.finished_job SET run_at = run_at - {i}, first_due_at = first_due_at - {i},
                 created_at = created_at - {i}, claimed_at = claimed_at - {i}, started_at = started_at - {i},
                 finished_at = finished_at - {i} WHERE {q};
             UPDATE turno.attempt SET claimed_at = claimed_at - {i}, started_at = started_at - {i},
                 ended_at = ended_at - {i}, run_at = run_at - {i} WHERE {q};
             UPDATE turno.refused SET first_at = first_at - {i}, last_at = last_at - {i} WHERE {q};
             UPDATE turno.schedule SET done_until = done_until - {i}, next_at = next_at - {i}, paused_at = paused_at - {i},
                 last_at = last_at - {i}, created_at = created_at - {i}, updated_at = updated_at - {i} WHERE {q};
             UPDATE turno.schedule_run SET fired_at = fired_at - {i} WHERE schedule IN (SELECT name FROM turno.schedule WHERE {q});"
        );
        self.owner().await.batch_execute(&sql).await.expect("rows age");
    }

    async fn age_reaper(&self, by: Duration) {
        let i = format!("({} * interval '1 microsecond')", by.as_micros());
        let sql =
            format!("UPDATE turno.reaper SET last_reap_at = last_reap_at - {i}, hold_from = hold_from - {i}");
        self.owner().await.batch_execute(&sql).await.expect("the reaper's memory ages");
    }

    async fn raise_ids(&self, above: i64) {
        let sql = format!("SELECT setval('turno.job_id', greatest({above}, nextval('turno.job_id')))");
        self.owner().await.batch_execute(&sql).await.expect("the sequence moves");
    }

    async fn execute(&self, sql: &str) -> Result<u64, String> {
        self.owner().await.execute(sql, &[]).await.map_err(|error| format!("{error:?}"))
    }

    async fn scalar(&self, sql: &str) -> Option<i64> {
        let sql = format!("SELECT (({sql}))::bigint");
        self.owner().await.query_opt(&sql, &[]).await.expect("a scalar").and_then(|row| row.get(0))
    }

    async fn begin(&self) -> Box<dyn RigTransaction> {
        let client = session(&self.url).await;
        client.batch_execute("BEGIN").await.expect("a transaction");
        Box::new(PostgresTransaction { client, backend: self.backend.clone() })
    }

    fn row_locks(&self) -> bool {
        true
    }

    fn routines(&self) -> bool {
        true
    }

    fn url(&self) -> String {
        self.url.clone()
    }
}

/// Dropping the client ends its session, and so the transaction.
struct PostgresTransaction {
    client: Client,
    backend: Arc<PostgresBackend>,
}

fn plain(error: tokio_postgres::Error) -> Error {
    let message =
        error.as_db_error().map_or(error.to_string(), |db| format!("{}: {}", db.code().code(), db.message()));
    let kind = match error.code().map(|code| code.code()) {
        Some("TU002") => ErrorKind::InvalidArgument,
        _ => ErrorKind::Internal,
    };
    Error::new(kind, message).with_source(error)
}

#[async_trait]
impl RigTransaction for PostgresTransaction {
    async fn enqueue(&mut self, job: &NewJob) -> Result<Enqueued> {
        self.backend.enqueue_in(&self.client, job).await
    }

    async fn complete(&mut self, worker: &str, completion: &Completion) -> Result<Settled> {
        self.backend.complete_in(&self.client, worker, completion).await
    }

    async fn lock(&mut self, job: JobId) -> Result<()> {
        let sql = "SELECT 1 FROM turno.job WHERE id = $1 FOR UPDATE";
        self.client.query(sql, &[&job.0]).await.map(drop).map_err(plain)
    }

    async fn call(&mut self, operation: &str) -> Result<()> {
        let sql = match operation {
            "claim" => "SELECT * FROM turno.claim(ARRAY['nobody'], 'w', 1, 1000, gen_random_uuid())",
            "reap" => "SELECT * FROM turno.reap(1)",
            "promote" => "SELECT turno.promote(ARRAY['nobody'], 1)",
            "prune" => "SELECT * FROM turno.prune(1)",
            other => panic!("no call of {other} is known"),
        };
        // PostgreSQL can refuse a transaction that has written; it cannot see one that has only begun.
        self.client.batch_execute("SELECT turno.enqueue('nobody', 'k', '1')").await.map_err(plain)?;
        self.client.batch_execute(sql).await.map_err(plain)
    }

    async fn commit(self: Box<Self>) -> Result<()> {
        self.client.batch_execute("COMMIT").await.map_err(plain)
    }

    async fn rollback(self: Box<Self>) -> Result<()> {
        self.client.batch_execute("ROLLBACK").await.map_err(plain)
    }
}
