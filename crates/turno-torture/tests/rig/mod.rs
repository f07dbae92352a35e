//! A database of its own for each test, with the shipped schema or a mutation of it. It refuses to share anything.

use tokio_postgres::NoTls;
use turno::Engine;

/// Names the server on which the PostgreSQL half runs.
pub const POSTGRES_URL: &str = "TURNO_TEST_POSTGRES_URL";

pub const COMPLETE: &str = include_str!("../../../turno-postgres/sql/operations/complete_many.sql");
pub const REAP: &str = include_str!("../../../turno-postgres/sql/internal/reap_expired.sql");
pub const END_ATTEMPT: &str = include_str!("../../../turno-postgres/sql/internal/end_attempt.sql");

pub struct Database {
    pub url: String,
    name: String,
    _folder: Option<tempfile::TempDir>,
}

impl Database {
    /// Made, migrated, and changed by this SQL.
    pub fn new(engine: Engine, mutation: Option<String>) -> Self {
        let name = format!("turno_torture_{}", uuid::Uuid::new_v4().simple());
        let (url, folder) = match engine {
            Engine::Sqlite => {
                let folder = tempfile::tempdir().expect("a temporary folder");
                (format!("sqlite:{}", folder.path().join("jobs.db").display()), Some(folder))
            }
            _ => {
                execute(&server_url(), &format!("CREATE DATABASE {name}"));
                (with_database(&server_url(), &name), None)
            }
        };
        let install = async {
            let backend = turno::connect(&url).await.expect("the database can be reached");
            backend.migrate(false).await.expect("the schema is installed");
        };
        runtime().block_on(install);
        if let Some(sql) = mutation {
            match engine {
                Engine::Sqlite => rusqlite::Connection::open(url.trim_start_matches("sqlite:"))
                    .and_then(|connection| connection.execute_batch(&sql))
                    .expect("the mutation is installed"),
                _ => execute(&url, &sql),
            }
        }
        Database { url, name, _folder: folder }
    }

    /// Removes what outlives the process.
    pub fn remove(&self) {
        if self._folder.is_none() {
            execute(&server_url(), &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

fn server_url() -> String {
    std::env::var(POSTGRES_URL).expect("only run when it is set")
}

fn execute(url: &str, sql: &str) {
    runtime().block_on(async {
        let (client, connection) =
            tokio_postgres::connect(url, NoTls).await.expect("the test server answers");
        tokio::spawn(connection);
        client.batch_execute(sql).await.expect("the statement runs");
    });
}

/// The server's URL with another database.
fn with_database(url: &str, database: &str) -> String {
    let (base, query) =
        url.split_once('?').map_or((url, String::new()), |(base, query)| (base, format!("?{query}")));
    let start = base.find("://").map_or(0, |start| start + 3);
    let end = base[start..].find('/').map_or(base.len(), |end| start + end);
    format!("{}/{database}{query}", &base[..end])
}
