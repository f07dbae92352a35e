//! A database of its own for each test, with the shipped schema or a mutation of it. It refuses to share anything.

mod program;

use mysql_async::prelude::Queryable;
use tokio_postgres::NoTls;
use turno::Engine;

pub use program::Program;

/// Names the server on which an engine's tests run; `None` if it needs no server.
pub fn variable(engine: Engine) -> Option<&'static str> {
    match engine {
        Engine::Postgres => Some("TURNO_TEST_POSTGRES_URL"),
        Engine::Mariadb => Some("TURNO_TEST_MARIADB_URL"),
        Engine::Mysql => Some("TURNO_TEST_MYSQL_URL"),
        _ => None,
    }
}

pub const COMPLETE: &str = include_str!("../../../turno-postgres/sql/internal/complete_rows.sql");
pub const REAP: &str = include_str!("../../../turno-postgres/sql/internal/reap_expired.sql");
pub const END_ATTEMPT: &str = include_str!("../../../turno-postgres/sql/internal/end_attempt.sql");

pub const MYSQL_COMPLETE: &str = include_str!("../../../turno-mysql/sql/internal/complete_all.sql");
pub const MYSQL_END_ATTEMPT: &str = include_str!("../../../turno-mysql/sql/internal/end_attempt.sql");
pub const SQLITE_COMPLETE: &str = include_str!("../../../turno-sqlite/sql/operations/complete.sql");

pub struct Database {
    pub url: String,
    engine: Engine,
    name: String,
    _folder: Option<tempfile::TempDir>,
}

impl Database {
    /// Made, migrated, and changed by this SQL, which on MySQL and MariaDB is the text of one routine.
    pub fn new(engine: Engine, mutation: Option<String>) -> Self {
        let random = uuid::Uuid::new_v4().simple().to_string();
        // Names of roles on MySQL have 32 characters, and begin with this.
        let name = format!("tt_{}", &random[..14]);
        let mut folder = None;
        let url = match engine {
            Engine::Sqlite => {
                let made = tempfile::tempdir().expect("a temporary folder");
                let url = format!("sqlite:{}", made.path().join("jobs.db").display());
                folder = Some(made);
                url
            }
            Engine::Postgres => {
                execute(engine, &server_url(engine), &format!("CREATE DATABASE {name}"));
                with_database(&server_url(engine), &name)
            }
            _ => {
                let server = server_url(engine);
                format!("{server}{}turno_schema={name}", if server.contains('?') { '&' } else { '?' })
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
                Engine::Postgres => execute(engine, &url, &sql),
                _ => replace_routine(engine, &sql.replace("turno", &name)),
            }
        }
        Database { url, engine, name, _folder: folder }
    }

    /// Removes what outlives the process.
    pub fn remove(&self) {
        let (engine, name) = (self.engine, &self.name);
        match engine {
            Engine::Sqlite => {}
            Engine::Postgres => {
                let sql = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
                execute(engine, &server_url(engine), &sql);
            }
            _ => {
                execute(engine, &server_url(engine), &format!("DROP DATABASE IF EXISTS {name}"));
                for role in ["producer", "worker", "scheduler", "operator", "viewer", "service", "admin"] {
                    execute(engine, &server_url(engine), &format!("DROP ROLE IF EXISTS {name}_{role}"));
                }
            }
        }
    }
}

/// The shipped text with one condition taken out wherever it stands; that it stood there so many times is part of the test.
pub fn without(text: &str, condition: &str, instead: &str, times: usize) -> String {
    assert_eq!(text.matches(condition).count(), times, "how often the shipped routine has {condition:?}");
    text.replace(condition, instead)
}

/// There is no CREATE OR REPLACE on MySQL.
fn replace_routine(engine: Engine, text: &str) {
    let begin = text.find("CREATE PROCEDURE").expect("a routine");
    let name = text[begin..].split([' ', '(']).nth(2).expect("its name");
    execute(engine, &server_url(engine), &format!("DROP PROCEDURE {name}"));
    execute(engine, &server_url(engine), &text[begin..]);
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

fn server_url(engine: Engine) -> String {
    variable(engine).and_then(|name| std::env::var(name).ok()).expect("only run when it is set")
}

fn execute(engine: Engine, url: &str, sql: &str) {
    runtime().block_on(async {
        if engine == Engine::Postgres {
            let (client, connection) =
                tokio_postgres::connect(url, NoTls).await.expect("the test server answers");
            tokio::spawn(connection);
            client.batch_execute(sql).await.expect("the statement runs");
            return;
        }
        let url = url.replacen("mariadb://", "mysql://", 1);
        let options = mysql_async::Opts::from_url(&url).expect("a URL of the test server");
        let options = mysql_async::OptsBuilder::from_opts(options).prefer_socket(false);
        let mut session = mysql_async::Conn::new(options).await.expect("the test server answers");
        session.query_drop(sql).await.expect("the statement runs");
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
