//! An installation of its own on the test server; shared by the tests of this crate.

#![allow(dead_code, reason = "each test binary uses another part")]

mod spread;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use regex::Regex;
use tokio::sync::Mutex;
use turno_conformance::{Rig, RigTransaction};
use turno_contract::{
    Backend, BoxedBackend, Completion, Enqueued, Error, ErrorKind, JobId, NewJob, Result, Settled,
};
use turno_mysql::MysqlBackend;

/// Where the MariaDB server is. The tests cannot run without one, and must not pass without running.
pub fn mariadb_url() -> String {
    std::env::var("TURNO_TEST_MARIADB_URL")
        .expect("TURNO_TEST_MARIADB_URL names a server where databases may be made; scripts/test starts one")
}

/// A MySQL server, which may be missing.
pub fn mysql_url() -> Option<String> {
    std::env::var("TURNO_TEST_MYSQL_URL").ok().filter(|url| !url.is_empty())
}

/// Both servers, or the one that there is.
pub fn servers() -> Vec<String> {
    std::iter::once(mariadb_url()).chain(mysql_url()).collect()
}

/// A name for an installation that no other test, of this run or another, has.
pub fn new_schema() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let random = &turno_contract::Token::random().as_uuid().simple().to_string()[..10];
    format!("t_{random}_{number}")
}

/// A session of the owner. Backslashes are plain characters in it, as the suite's SQL expects.
pub async fn session(url: &str) -> Conn {
    let url = url.replacen("mariadb://", "mysql://", 1);
    let options = OptsBuilder::from_opts(Opts::from_url(&url).expect("a URL of the test server"))
        .prefer_socket(false)
        .client_found_rows(true);
    let mut connection = Conn::new(options).await.expect("a connection to the test server");
    let sql = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES,NO_ENGINE_SUBSTITUTION'";
    connection.query_drop(sql).await.expect("a strict session");
    connection
}

pub struct MysqlRig {
    server_url: String,
    schema: String,
    backend: Arc<MysqlBackend>,
    owner: Mutex<Conn>,
    /// Several nodes, each with locks of its own.
    several: bool,
}

impl MysqlRig {
    /// On a cluster: each connection goes to the next node.
    pub async fn on_nodes(urls: &[String]) -> Self {
        let servers: Vec<SocketAddr> = urls.iter().map(|url| address(url)).collect();
        let mut rig = MysqlRig::on(&format!("mariadb://root@{}/", spread::spread(servers))).await;
        rig.several = true;
        rig
    }

    pub async fn on(server_url: &str) -> Self {
        let schema = new_schema();
        let url = format!("{server_url}?turno_schema={schema}");
        let backend = MysqlBackend::connect(&url).await.expect("the backend connects");
        backend.migrate(false).await.expect("the schema is installed");
        let mut owner = session(server_url).await;
        // Ageing the rows of one queue must not lock the first row of the next, which a case beside it is about to claim.
        let isolation = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
        owner.query_drop(isolation).await.expect("a level");
        let owner = Mutex::new(owner);
        MysqlRig {
            server_url: server_url.to_owned(),
            schema,
            backend: Arc::new(backend),
            owner,
            several: false,
        }
    }

    pub fn mysql(&self) -> &MysqlBackend {
        &self.backend
    }

    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// Another session on this server.
    pub async fn session(&self) -> Conn {
        session(&self.server_url).await
    }

    /// The text of a statement on `turno` for this installation.
    pub fn sql(&self, sql: &str) -> String {
        sql.replace("turno", &self.schema)
    }

    async fn run(&self, sql: &str) -> mysql_async::Result<u64> {
        let mut owner = self.owner.lock().await;
        let result = owner.query_iter(sql).await?;
        let touched = result.affected_rows();
        result.drop_result().await?;
        Ok(touched)
    }
}

/// The address in a URL of one of our own nodes.
fn address(url: &str) -> SocketAddr {
    let rest = url.split_once('@').map_or(url, |(_, rest)| rest);
    rest.trim_end_matches('/').parse().expect("mariadb://root@ADDRESS:PORT/")
}

/// Words that are names of columns elsewhere and reserved here.
fn with_quoted_names(sql: &str) -> String {
    let word = Regex::new(r"(^|[^.\w'`])(rank|key)\b").expect("an expression");
    word.replace_all(sql, "$1`$2`").into_owned()
}

#[async_trait]
impl Rig for MysqlRig {
    fn backend(&self) -> BoxedBackend {
        self.backend.clone()
    }

    fn table(&self, name: &str) -> String {
        format!("{}.{name}", self.schema)
    }

    async fn age(&self, queue: &str, by: Duration) {
        let us = by.as_micros();
        let less = |column: &str| format!("`{column}` = `{column}` - {us}");
        let list =
            |columns: &[&str]| columns.iter().map(|column| less(column)).collect::<Vec<_>>().join(", ");
        let job = list(&[
            "run_at",
            "first_due_at",
            "created_at",
            "claimed_at",
            "started_at",
            "lease_until",
            "run_until",
            "cancel_requested_at",
            "rank",
        ]);
        let finished =
            list(&["run_at", "first_due_at", "created_at", "claimed_at", "started_at", "finished_at"]);
        let attempt = list(&["claimed_at", "started_at", "ended_at", "run_at"]);
        let refused = list(&["first_at", "last_at"]);
        let schedule = list(&["done_until", "next_at", "paused_at", "last_at", "created_at", "updated_at"]);
        let queue = format!("'{}'", queue.replace('\'', "''"));
        for (table, columns) in [
            ("job", job),
            ("finished_job", finished),
            ("attempt", attempt),
            ("refused", refused),
            ("schedule", schedule),
        ] {
            let sql = format!("UPDATE {}.{table} SET {columns} WHERE queue = {queue}", self.schema);
            self.run(&sql).await.expect("rows age");
        }
        let sql = format!(
            "UPDATE {0}.schedule_run SET {1} WHERE schedule IN (SELECT name FROM {0}.schedule WHERE queue = {queue})",
            self.schema,
            list(&["fired_at"])
        );
        self.run(&sql).await.expect("records of instants age");
    }

    async fn age_reaper(&self, by: Duration) {
        let us = by.as_micros();
        let sql = format!(
            "UPDATE {}.reaper SET last_reap_at = last_reap_at - {us}, hold_from = hold_from - {us}",
            self.schema
        );
        self.run(&sql).await.expect("the reaper's memory ages");
    }

    async fn raise_ids(&self, above: i64) {
        // A row with this id raises the counter for good, and no definition has to wait for other transactions.
        let mut owner = self.session().await;
        let insert = format!(
            "INSERT INTO {}.job (id, queue, kind, payload, state, run_at, first_due_at, created_at, operation_id) \
             VALUES ({above}, 'ids', 'ids', '0', 'scheduled', 1, 1, 1, UNHEX(REPEAT('0', 32)))",
            self.schema
        );
        owner.query_drop("START TRANSACTION").await.expect("a transaction");
        owner.query_drop(insert).await.expect("a row with a high id");
        owner.query_drop("ROLLBACK").await.expect("the row is gone again");
    }

    async fn execute(&self, sql: &str) -> Result<u64, String> {
        self.run(&with_quoted_names(sql)).await.map_err(|error| error.to_string())
    }

    async fn scalar(&self, sql: &str) -> Option<i64> {
        let sql = format!("SELECT CAST(({}) AS SIGNED)", with_quoted_names(sql));
        let row: Option<Option<i64>> = self.owner.lock().await.query_first(sql).await.expect("a scalar");
        row.flatten()
    }

    async fn begin(&self) -> Box<dyn RigTransaction> {
        let mut connection = self.session().await;
        connection.query_drop("START TRANSACTION").await.expect("a transaction");
        let (backend, schema) = (self.backend.clone(), self.schema.clone());
        Box::new(MysqlTransaction { connection, backend, schema, lost: false })
    }

    fn row_locks(&self) -> bool {
        !self.several
    }

    fn why_no_row_locks(&self) -> &'static str {
        "not applicable: a transaction of one node locks no row on another"
    }

    fn routines(&self) -> bool {
        true
    }

    fn url(&self) -> String {
        format!("{}?turno_schema={}", self.server_url, self.schema)
    }
}

/// Dropping the connection ends its session, and so the transaction.
struct MysqlTransaction {
    connection: Conn,
    backend: Arc<MysqlBackend>,
    schema: String,
    lost: bool,
}

fn plain(error: mysql_async::Error) -> Error {
    let kind = match &error {
        mysql_async::Error::Server(server) if server.code == 31002 => ErrorKind::InvalidArgument,
        _ => ErrorKind::Internal,
    };
    Error::new(kind, error.to_string()).with_source(error)
}

#[async_trait]
impl RigTransaction for MysqlTransaction {
    async fn enqueue(&mut self, job: &NewJob) -> Result<Enqueued> {
        self.backend.enqueue_in(&mut self.connection, job).await
    }

    async fn complete(&mut self, worker: &str, completion: &Completion) -> Result<Settled> {
        let result = self.backend.complete_in(&mut self.connection, worker, completion).await;
        self.lost |= result.is_err();
        result
    }

    async fn lock(&mut self, job: JobId) -> Result<()> {
        let sql = format!("SELECT id FROM {}.job WHERE id = {} FOR UPDATE", self.schema, job.0);
        self.connection.query_drop(sql).await.map_err(plain)
    }

    async fn call(&mut self, operation: &str) -> Result<()> {
        let token = turno_contract::Token::random().as_uuid();
        let sql = match operation {
            "claim" => format!("CALL turno.claim('[\"nobody\"]', 'w', 1, 1000, '{token}', NULL, NULL)"),
            "reap" => "CALL turno.reap(1, 0)".to_owned(),
            "promote" => "CALL turno.promote('[\"nobody\"]', 1)".to_owned(),
            "prune" => "CALL turno.prune(1)".to_owned(),
            other => panic!("no call of {other} is known"),
        };
        self.connection.query_drop(sql.replace("turno", &self.schema)).await.map_err(plain)
    }

    async fn commit(mut self: Box<Self>) -> Result<()> {
        // SettlingTransaction does the same; its own tests hold it to that.
        if self.lost {
            self.connection.query_drop("ROLLBACK").await.map_err(plain)?;
            return Err(Error::new(ErrorKind::LeaseLost, "a settle was refused: it was rolled back"));
        }
        self.connection.query_drop("COMMIT").await.map_err(plain)
    }

    async fn rollback(mut self: Box<Self>) -> Result<()> {
        self.connection.query_drop("ROLLBACK").await.map_err(plain)
    }
}
