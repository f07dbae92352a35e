//! The few things that torture does to a database by its own words: a handler's transaction with `complete_in`,
//! ending sessions, holding a row. One module per engine. It refuses to read any table: what the checks look at comes
//! through the trait `Backend`.

mod mysql;
mod postgres;
mod sqlite;
#[cfg(feature = "sqlserver")]
mod sqlserver;

use std::sync::Arc;

use mysql_async::prelude::Queryable;
use turno::{BoxedBackend, Completion, Error, ErrorKind, JobId, Result, Settled};

use crate::wire::Protocol;

/// A backend, and what lies beside it.
#[derive(Clone)]
pub(crate) struct Database {
    pub(crate) backend: BoxedBackend,
    engine: Engine,
}

#[derive(Clone)]
enum Engine {
    Postgres {
        backend: Arc<turno::postgres::PostgresBackend>,
        url: String,
    },
    Mysql {
        backend: Arc<turno::mysql::MysqlBackend>,
        url: String,
    },
    Sqlite {
        path: String,
    },
    #[cfg(feature = "sqlserver")]
    Sqlserver {
        backend: Arc<turno::sqlserver::SqlServerBackend>,
        url: String,
    },
}

impl Database {
    /// Connects, whatever the engine.
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        // As `turno::connect` does.
        #[cfg(feature = "sqlserver")]
        turno::sqlserver::choose_cryptography();
        match protocol(url) {
            Some(Protocol::Postgres) => {
                let backend = Arc::new(turno::postgres::PostgresBackend::connect(url).await?);
                let engine = Engine::Postgres { backend: Arc::clone(&backend), url: url.to_owned() };
                Ok(Database { backend, engine })
            }
            Some(Protocol::Mysql) => {
                let backend = Arc::new(turno::mysql::MysqlBackend::connect(url).await?);
                let engine = Engine::Mysql { backend: Arc::clone(&backend), url: url.to_owned() };
                Ok(Database { backend, engine })
            }
            None if url.starts_with("sqlite:") => {
                let backend = turno::connect(url).await?;
                Ok(Database { backend, engine: Engine::Sqlite { path: sqlite::path(url) } })
            }
            #[cfg(feature = "sqlserver")]
            Some(Protocol::Tds) => {
                let backend = Arc::new(turno::sqlserver::SqlServerBackend::connect(url).await?);
                let engine = Engine::Sqlserver { backend: Arc::clone(&backend), url: url.to_owned() };
                Ok(Database { backend, engine })
            }
            #[cfg(not(feature = "sqlserver"))]
            Some(Protocol::Tds) => Err(Error::invalid("this program was built without SQL Server")),
            None => Err(Error::invalid("torture knows SQLite, PostgreSQL, MySQL, MariaDB and SQL Server")),
        }
    }

    /// Completes in a transaction of the caller's own; `hold` runs between the answer and the commit, on a thread
    /// that may block. Errors as `complete_in`; `TransactionLost` or an unknown outcome if the commit was lost.
    pub(crate) async fn complete_in(
        &self,
        worker: &str,
        completion: Completion,
        hold: impl FnOnce() + Send + 'static,
    ) -> Result<Settled> {
        match &self.engine {
            Engine::Postgres { backend, url } => {
                postgres::complete_in(backend, url, worker, completion, hold).await
            }
            Engine::Mysql { backend, url } => {
                mysql::complete_in(backend, url, worker, completion, hold).await
            }
            Engine::Sqlite { path } => sqlite::complete_in(path, worker, completion, hold).await,
            #[cfg(feature = "sqlserver")]
            Engine::Sqlserver { backend, url } => {
                sqlserver::complete_in(backend, url, worker, completion, hold).await
            }
        }
    }

    /// Locks the row of a running job in an open transaction. With one writer the lock is that of the whole database.
    pub(crate) async fn hold_row(&self, job: JobId) -> Result<Held> {
        match &self.engine {
            Engine::Postgres { url, .. } => postgres::hold_row(url, job).await.map(Held::Postgres),
            Engine::Mysql { url, .. } => mysql::hold_row(url, job).await.map(Box::new).map(Held::Mysql),
            Engine::Sqlite { path } => sqlite::hold(path).await.map(Held::Sqlite),
            #[cfg(feature = "sqlserver")]
            Engine::Sqlserver { url, .. } => {
                sqlserver::hold_row(url, job).await.map(Box::new).map(Held::Sqlserver)
            }
        }
    }

    /// Ends the sessions with this application name or, where sessions have none, of these numbers; answers how many
    /// there were.
    pub(crate) async fn terminate(&self, application: &str, sessions: &[u32]) -> Result<u64> {
        match &self.engine {
            Engine::Mysql { url, .. } => mysql::terminate(url, sessions).await,
            Engine::Postgres { url, .. } => postgres::terminate(url, application).await,
            Engine::Sqlite { .. } => Err(Error::invalid("SQLite has no sessions")),
            #[cfg(feature = "sqlserver")]
            Engine::Sqlserver { url, .. } => sqlserver::terminate(url, application).await,
        }
    }
}

/// An open transaction, until it is released.
pub(crate) enum Held {
    Postgres(tokio_postgres::Client),
    Mysql(Box<mysql_async::Conn>),
    Sqlite(rusqlite::Connection),
    #[cfg(feature = "sqlserver")]
    Sqlserver(Box<turno::sqlserver::Connection>),
}

impl Held {
    /// Ends the transaction. An error means that it ended before.
    pub(crate) async fn release(self) -> Result<()> {
        match self {
            Held::Postgres(client) => client.batch_execute("ROLLBACK").await.map_err(broken),
            Held::Mysql(mut connection) => connection.query_drop("ROLLBACK").await.map_err(broken),
            Held::Sqlite(connection) => connection.execute_batch("ROLLBACK").map_err(broken),
            #[cfg(feature = "sqlserver")]
            Held::Sqlserver(connection) => sqlserver::roll_back(*connection).await,
        }
    }
}

/// Which protocol the URL's server speaks, of those that the proxy can read; `None` if there is no such server.
pub(crate) fn protocol(url: &str) -> Option<Protocol> {
    match url.split_once(':')?.0 {
        "postgres" | "postgresql" => Some(Protocol::Postgres),
        "mysql" | "mariadb" => Some(Protocol::Mysql),
        "sqlserver" | "mssql" => Some(Protocol::Tds),
        _ => None,
    }
}

/// Whether the server answers.
pub(crate) async fn answers(url: &str) -> bool {
    match protocol(url) {
        Some(Protocol::Postgres) => postgres::session(url).await.is_ok(),
        Some(Protocol::Mysql) => mysql::session(url).await.is_ok(),
        // Torture starts no SQL Server.
        Some(Protocol::Tds) | None => false,
    }
}

/// The URL with another host and port, without TLS, and if possible under this application name; and the server's own
/// address.
pub(crate) fn with_host(url: &str, address: &str, application: &str) -> Option<(String, String)> {
    match protocol(url)? {
        Protocol::Postgres => postgres::with_host(url, address, application),
        Protocol::Mysql => mysql::with_host(url, address),
        #[cfg(feature = "sqlserver")]
        Protocol::Tds => sqlserver::with_host(url, address, application),
        #[cfg(not(feature = "sqlserver"))]
        Protocol::Tds => None,
    }
}

/// The parts of a URL.
struct Address<'a> {
    scheme: &'a str,
    /// With the password and the `@`, or empty.
    user: &'a str,
    /// With a port.
    server: String,
    database: &'a str,
    query: &'a str,
}

fn split(url: &str, port: u16) -> Option<Address<'_>> {
    let (scheme, rest) = url.split_once("://")?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    let host = authority.rfind('@').map_or(0, |at| at + 1);
    let (user, server) = authority.split_at(host);
    let has_port = server.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let server = if has_port { server.to_owned() } else { format!("{server}:{port}") };
    Some(Address { scheme, user, server, database, query })
}

/// The parameters but for these.
fn without(query: &str, names: &[&str]) -> String {
    let name = |pair: &str| pair.split('=').next().unwrap_or_default().to_owned();
    let kept = query.split('&').filter(|pair| !pair.is_empty() && !names.contains(&name(pair).as_str()));
    kept.collect::<Vec<_>>().join("&")
}

fn broken(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let mut text = error.to_string();
    if let Some(source) = error.source() {
        text = format!("{text}: {source}");
    }
    Error::new(ErrorKind::Unavailable, text).with_source(error)
}
