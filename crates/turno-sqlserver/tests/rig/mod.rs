//! An installation of its own in the test server's database; shared by the tests of this crate.

#![allow(dead_code, reason = "each test binary uses another part")]

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use regex::{Captures, Regex};
use tokio::sync::Mutex;
use turno_conformance::{Rig, RigTransaction};
use turno_contract::{
    Backend, BoxedBackend, Completion, Enqueued, Error, ErrorKind, JobId, NewJob, Result, Settled,
};
use turno_sqlserver::{Connection, SqlServerBackend, SqlServerOptions};

/// A server and a database in which schemas may be made. There may be none.
pub fn url() -> Option<String> {
    std::env::var("TURNO_TEST_SQLSERVER_URL").ok().filter(|url| !url.is_empty())
}

/// A name for an installation that no other test, of this run or another, has.
pub fn new_schema() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let random = &turno_contract::Token::random().as_uuid().simple().to_string()[..10];
    format!("t_{random}_{number}")
}

/// A session of the owner.
pub async fn session(url: &str) -> Connection {
    let options = SqlServerOptions::from_str(url).expect("a URL of the test server");
    options.connect().await.expect("a connection to the test server")
}

/// Runs a batch; the text of the error is the server's.
pub async fn run(connection: &mut Connection, sql: &str) -> Result<(), String> {
    let answers = match connection.simple_query(sql).await {
        Ok(stream) => stream.into_results().await,
        Err(error) => Err(error),
    };
    answers.map(drop).map_err(|error| error.to_string())
}

pub struct SqlServerRig {
    url: String,
    schema: String,
    backend: Arc<SqlServerBackend>,
    owner: Mutex<Connection>,
}

impl SqlServerRig {
    pub async fn on(server_url: &str) -> Self {
        let schema = new_schema();
        let join = if server_url.contains('?') { '&' } else { '?' };
        let url = format!("{server_url}{join}turno_schema={schema}");
        let backend = SqlServerBackend::connect(&url).await.expect("the backend connects");
        backend.migrate(false).await.expect("the schema is installed");
        let owner = Mutex::new(session(&url).await);
        let rig = SqlServerRig { url, schema, backend: Arc::new(backend), owner };
        let versions = "SELECT is_read_committed_snapshot_on FROM sys.databases WHERE database_id = DB_ID()";
        if rig.scalar(versions).await == Some(0) {
            // A look at what an open transaction holds waits for its end.
            println!(
                "READ_COMMITTED_SNAPSHOT is off: add -- --skip commit_makes_it_visible --skip \
                 effects_and_completion_commit_together"
            );
        }
        rig
    }

    pub fn sqlserver(&self) -> &SqlServerBackend {
        &self.backend
    }

    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// Another session on this server.
    pub async fn session(&self) -> Connection {
        session(&self.url).await
    }

    /// The text of a statement on `turno` for this installation.
    pub fn sql(&self, sql: &str) -> String {
        sql.replace("turno", &self.schema)
    }

    async fn run(&self, sql: &str) -> Result<u64, String> {
        let mut owner = self.owner.lock().await;
        let answer = owner.execute(sql, &[]).await.map_err(|error| error.to_string())?;
        Ok(answer.total())
    }
}

/// Portable SQL as this server takes it: texts are nvarchar, and where names and keys are meant, their bytes.
fn translated(sql: &str) -> String {
    let bytes = |text: &str| format!("CONVERT(varbinary(max), N'{text}')");
    if sql.starts_with("INSERT INTO") && sql.contains("enqueue_key") {
        let text = Regex::new("'((?:[^']|'')*)'").expect("an expression");
        return text.replace_all(sql, |found: &Captures| bytes(&found[1])).into_owned();
    }
    let name = Regex::new(r"\b(queue|kind|unique_key|worker|\[key\])( *= *)'((?:[^']|'')*)'")
        .expect("an expression");
    let sql =
        name.replace_all(sql, |found: &Captures| format!("{}{}{}", &found[1], &found[2], bytes(&found[3])));
    let text = Regex::new(r"(N?)'((?:[^']|'')*)'").expect("an expression");
    text.replace_all(&sql, "N'$2'").into_owned()
}

#[async_trait]
impl Rig for SqlServerRig {
    fn backend(&self) -> BoxedBackend {
        self.backend.clone()
    }

    fn table(&self, name: &str) -> String {
        // Procedures of these names are in the way.
        let name = match name {
            "job" => "unfinished_job",
            "refused" => "refused_result",
            other => other,
        };
        format!("{}.{name}", self.schema)
    }

    fn column(&self, name: &str) -> String {
        if name == "key" { "[key]".to_owned() } else { name.to_owned() }
    }

    async fn age(&self, queue: &str, by: Duration) {
        let (seconds, microseconds) = (by.as_secs(), by.subsec_micros());
        let less = |column: &&str| {
            format!("{column} = DATEADD(microsecond, -{microseconds}, DATEADD(second, -{seconds}, {column}))")
        };
        let list = |columns: &[&str]| columns.iter().map(less).collect::<Vec<_>>().join(", ");
        let job = [
            "run_at",
            "first_due_at",
            "created_at",
            "claimed_at",
            "started_at",
            "lease_until",
            "run_until",
            "cancel_requested_at",
        ];
        let job = format!("{}, rank = rank - {}", list(&job), by.as_micros());
        let finished =
            list(&["run_at", "first_due_at", "created_at", "claimed_at", "started_at", "finished_at"]);
        let attempt = list(&["claimed_at", "started_at", "ended_at", "run_at"]);
        let refused = list(&["first_at", "last_at"]);
        let schedule = list(&["done_until", "next_at", "paused_at", "last_at", "created_at", "updated_at"]);
        let queue = format!("CONVERT(varbinary(400), N'{}')", queue.replace('\'', "''"));
        for (table, columns) in [
            ("job", job),
            ("finished_job", finished),
            ("attempt", attempt),
            ("refused", refused),
            ("schedule", schedule),
        ] {
            let sql = format!("UPDATE {} SET {columns} WHERE queue = {queue}", self.table(table));
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
        let (seconds, microseconds) = (by.as_secs(), by.subsec_micros());
        let less = |column: &str| {
            // The installation's own beginning is the oldest instant there is.
            format!(
                "{column} = IIF({column} < '1971-01-01', {column}, \
                 DATEADD(microsecond, -{microseconds}, DATEADD(second, -{seconds}, {column})))"
            )
        };
        let sql =
            format!("UPDATE {}.reaper SET {}, {}", self.schema, less("last_reap_at"), less("hold_from"));
        self.run(&sql).await.expect("the reaper's memory ages");
    }

    async fn raise_ids(&self, above: i64) {
        let schema = &self.schema;
        let sql = format!(
            "IF (SELECT CONVERT(bigint, current_value) FROM sys.sequences WHERE object_id = OBJECT_ID(N'{schema}.job_id')) < {above} \
             ALTER SEQUENCE {schema}.job_id RESTART WITH {}",
            above + 1
        );
        run(&mut *self.owner.lock().await, &sql).await.expect("the sequence goes on further up");
    }

    async fn execute(&self, sql: &str) -> Result<u64, String> {
        self.run(&translated(sql)).await
    }

    async fn scalar(&self, sql: &str) -> Option<i64> {
        let sql = format!("SELECT CAST(({}) AS bigint) AS n", translated(sql));
        let mut owner = self.owner.lock().await;
        let stream = owner.simple_query(sql).await.expect("a scalar");
        let row = stream.into_row().await.expect("a scalar");
        row.and_then(|row| row.get::<i64, _>(0))
    }

    async fn begin(&self) -> Box<dyn RigTransaction> {
        let mut connection = self.session().await;
        run(&mut connection, "BEGIN TRANSACTION").await.expect("a transaction");
        let (backend, schema) = (self.backend.clone(), self.schema.clone());
        Box::new(SqlServerTransaction { connection, backend, schema, lost: false })
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

/// Dropping the connection ends its session, and so the transaction.
struct SqlServerTransaction {
    connection: Connection,
    backend: Arc<SqlServerBackend>,
    schema: String,
    lost: bool,
}

fn plain(error: String) -> Error {
    // TU002 is the only number of the contract that a routine called in a transaction answers here.
    let kind = if error.contains("53102") || error.contains("refuses to join") {
        ErrorKind::InvalidArgument
    } else {
        ErrorKind::Internal
    };
    Error::new(kind, error)
}

#[async_trait]
impl RigTransaction for SqlServerTransaction {
    async fn enqueue(&mut self, job: &NewJob) -> Result<Enqueued> {
        let result = self.backend.enqueue_in(&mut self.connection, job).await;
        self.lost |= result.is_err();
        result
    }

    async fn complete(&mut self, worker: &str, completion: &Completion) -> Result<Settled> {
        let result = self.backend.complete_in(&mut self.connection, worker, completion).await;
        self.lost |= result.is_err();
        result
    }

    async fn lock(&mut self, job: JobId) -> Result<()> {
        let sql = format!(
            "SELECT id FROM {}.unfinished_job WITH (UPDLOCK, ROWLOCK) WHERE id = {}",
            self.schema, job.0
        );
        run(&mut self.connection, &sql).await.map_err(plain)
    }

    async fn call(&mut self, operation: &str) -> Result<()> {
        let token = turno_contract::Token::random().as_uuid();
        let sql = match operation {
            "claim" => format!("EXEC turno.claim N'[\"nobody\"]', N'w', 1, 1000, '{token}'"),
            "reap" => "EXEC turno.reap 1, 0".to_owned(),
            "promote" => "EXEC turno.promote N'[\"nobody\"]', 1".to_owned(),
            "prune" => "EXEC turno.prune 1".to_owned(),
            other => panic!("no call of {other} is known"),
        };
        let result = run(&mut self.connection, &sql.replace("turno", &self.schema)).await.map_err(plain);
        self.lost |= result.is_err();
        result
    }

    async fn commit(mut self: Box<Self>) -> Result<()> {
        // SettlingTransaction does the same; its own tests hold it to that.
        if self.lost {
            return Err(Error::new(ErrorKind::LeaseLost, "a call was refused: the server has rolled back"));
        }
        run(&mut self.connection, "COMMIT TRANSACTION").await.map_err(plain)
    }

    async fn rollback(mut self: Box<Self>) -> Result<()> {
        run(&mut self.connection, "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION").await.map_err(plain)
    }
}
