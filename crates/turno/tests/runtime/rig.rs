//! A database of its own for every case of the runtime's tests: a SQLite file, or a PostgreSQL database that is dropped
//! after the case. Time moves by ageing rows with SQL.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio_postgres::{Client, NoTls, SimpleQueryMessage};
use turno::{BoxedBackend, Engine, JobId, JobRecord, NewJob, Queue, State};

/// Names the server on which the PostgreSQL half runs.
pub const POSTGRES_URL: &str = "TURNO_TEST_POSTGRES_URL";

pub struct Rig {
    pub engine: Engine,
    pub url: String,
    pub backend: BoxedBackend,
    pub queue: String,
    pub name: String,
    _folder: Option<tempfile::TempDir>,
}

impl Rig {
    pub async fn new(engine: Engine) -> Self {
        let name = new_name();
        let (url, folder) = match engine {
            Engine::Sqlite => {
                let folder = tempfile::tempdir().expect("a temporary folder");
                (format!("sqlite:{}", folder.path().join("jobs.db").display()), Some(folder))
            }
            _ => {
                let server = server_url();
                let sql = format!("CREATE DATABASE {name}");
                session(&server).await.batch_execute(&sql).await.expect("a new database");
                (with_database(&server, &name), None)
            }
        };
        let backend = turno::connect(&url).await.expect("the database can be reached");
        backend.migrate(false).await.expect("the schema is installed");
        Rig { engine, url, backend, queue: "q".into(), name, _folder: folder }
    }

    /// The same database through a second backend.
    pub async fn beside(rig: &Rig) -> Rig {
        Rig {
            engine: rig.engine,
            url: rig.url.clone(),
            backend: rig.another_backend().await,
            queue: rig.queue.clone(),
            name: rig.name.clone(),
            _folder: None,
        }
    }

    /// Removes what outlives the process.
    pub async fn remove(engine: Engine, name: &str) {
        if engine == Engine::Postgres {
            let sql = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
            session(&server_url()).await.batch_execute(&sql).await.expect("the database is dropped");
        }
    }

    /// A second, independent backend: another process, as far as the database can tell.
    pub async fn another_backend(&self) -> BoxedBackend {
        turno::connect(&self.url).await.expect("the database can be reached")
    }

    pub fn queue(&self) -> Queue {
        Queue::new(self.backend.clone(), &self.queue)
    }

    pub async fn enqueue(&self, kind: &str, payload: &str) -> JobId {
        self.enqueue_job(NewJob::new(&self.queue, kind, payload)).await
    }

    pub async fn enqueue_job(&self, job: NewJob) -> JobId {
        self.backend.enqueue(&[job]).await.expect("enqueued")[0].id
    }

    pub async fn job(&self, id: JobId) -> JobRecord {
        self.backend.job(id).await.expect("answered").expect("the job has a record")
    }

    pub async fn state(&self, id: JobId) -> State {
        self.job(id).await.state
    }

    /// The name of a table.
    pub fn table(&self, name: &str) -> String {
        match self.engine {
            Engine::Sqlite => format!("turno_{name}"),
            _ => format!("turno.{name}"),
        }
    }

    /// An expression for an instant column, moved into the past.
    pub fn earlier(&self, column: &str, by: Duration) -> String {
        match self.engine {
            Engine::Sqlite => format!("{column} = {column} - {}", by.as_micros()),
            _ => format!("{column} = {column} - interval '{} microseconds'", by.as_micros()),
        }
    }

    /// Moves the lease of every running job of this queue into the past.
    pub async fn age_leases(&self, by: Duration) {
        let columns = ["lease_until", "claimed_at", "run_until", "started_at"].map(|c| self.earlier(c, by));
        let (job, queue) = (self.table("job"), &self.queue);
        self.execute(&format!(
            "UPDATE {job} SET {} WHERE queue = '{queue}' AND state = 'running'",
            columns.join(", ")
        ))
        .await;
    }

    /// Moves the due time of every scheduled job of this queue into the past.
    pub async fn age_schedule(&self, by: Duration) {
        let (job, queue, run_at) = (self.table("job"), &self.queue, self.earlier("run_at", by));
        self.execute(&format!("UPDATE {job} SET {run_at} WHERE queue = '{queue}' AND state = 'scheduled'"))
            .await;
    }

    /// Runs a statement as the tables' owner.
    pub async fn execute(&self, sql: &str) {
        match self.engine {
            Engine::Sqlite => self.sqlite().execute_batch(sql).expect("the statement runs"),
            _ => self.session().await.batch_execute(sql).await.expect("the statement runs"),
        }
    }

    /// One number that a query answers.
    pub async fn number(&self, sql: &str) -> i64 {
        match self.engine {
            Engine::Sqlite => self.sqlite().query_row(sql, [], |row| row.get(0)).expect("a number"),
            _ => {
                let messages = self.session().await.simple_query(sql).await.expect("the query runs");
                let row = messages.iter().find_map(|message| match message {
                    SimpleQueryMessage::Row(row) => row.get(0),
                    _ => None,
                });
                row.expect("a row").parse().expect("a number")
            }
        }
    }

    fn sqlite(&self) -> rusqlite::Connection {
        let path = self.url.trim_start_matches("sqlite:");
        let connection = rusqlite::Connection::open(path).expect("the file can be opened");
        connection.busy_timeout(Duration::from_secs(20)).expect("a timeout");
        connection
    }

    /// A connection of the owner.
    pub async fn session(&self) -> Client {
        session(&self.url).await
    }

    /// Keeps every worker from renewing the leases of this queue: by the write lock, or by locks on its rows.
    pub async fn block(&self) -> Block {
        match self.engine {
            Engine::Sqlite => {
                let connection = self.sqlite();
                connection.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
                Block { _sqlite: Some(connection), _postgres: None }
            }
            _ => {
                let client = self.session().await;
                let sql =
                    format!("BEGIN; SELECT id FROM turno.job WHERE queue = '{}' FOR UPDATE", self.queue);
                client.batch_execute(&sql).await.expect("the locks");
                Block { _sqlite: None, _postgres: Some(client) }
            }
        }
    }
}

/// Ends when it is dropped: the connection closes, and its transaction with it.
pub struct Block {
    _sqlite: Option<rusqlite::Connection>,
    _postgres: Option<Client>,
}

fn server_url() -> String {
    std::env::var(POSTGRES_URL).expect("only run when it is set")
}

async fn session(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the test server answers");
    tokio::spawn(connection);
    client
}

/// The server's URL with another database.
fn with_database(server: &str, name: &str) -> String {
    let (base, query) =
        server.split_once('?').map_or((server, String::new()), |(base, q)| (base, format!("?{q}")));
    let start = base.find("://").map_or(0, |start| start + 3);
    let end = base[start..].find('/').map_or(base.len(), |end| start + end);
    format!("{}/{name}{query}", &base[..end])
}

/// A name that no other case and no other run has.
fn new_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let since =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("turno_runtime_{}_{number}_{:08x}", std::process::id(), since as u32)
}
