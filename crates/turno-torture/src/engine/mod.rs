//! The few things that torture does to a database by its own words: a handler's transaction with `complete_in`,
//! ending sessions, holding a row. One module per engine. It refuses to read any table: what the checks look at comes
//! through the trait `Backend`.

mod postgres;
mod sqlite;

use std::sync::Arc;

use turno::{BoxedBackend, Completion, Error, ErrorKind, JobId, Result, Settled};

pub(crate) use postgres::with_host;

/// A backend, and what lies beside it.
#[derive(Clone)]
pub(crate) struct Database {
    pub(crate) backend: BoxedBackend,
    engine: Engine,
}

#[derive(Clone)]
enum Engine {
    Postgres { backend: Arc<turno::postgres::PostgresBackend>, url: String },
    Sqlite { path: String },
}

impl Database {
    /// Connects, whatever the engine.
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        if url.starts_with("postgres") {
            let backend = Arc::new(turno::postgres::PostgresBackend::connect(url).await?);
            let engine = Engine::Postgres { backend: Arc::clone(&backend), url: url.to_owned() };
            return Ok(Database { backend, engine });
        }
        if !url.starts_with("sqlite:") {
            return Err(Error::invalid("torture knows PostgreSQL and SQLite so far"));
        }
        let backend = turno::connect(url).await?;
        Ok(Database { backend, engine: Engine::Sqlite { path: sqlite::path(url) } })
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
            Engine::Sqlite { path } => sqlite::complete_in(path, worker, completion, hold).await,
        }
    }

    /// Locks the row of a running job in an open transaction. With one writer the lock is that of the whole database.
    pub(crate) async fn hold_row(&self, job: JobId) -> Result<Held> {
        match &self.engine {
            Engine::Postgres { url, .. } => postgres::hold_row(url, job).await.map(Held::Postgres),
            Engine::Sqlite { path } => sqlite::hold(path).await.map(Held::Sqlite),
        }
    }

    /// Ends the sessions with this application name; answers how many there were.
    pub(crate) async fn terminate(&self, application: &str) -> Result<u64> {
        match &self.engine {
            Engine::Postgres { url, .. } => postgres::terminate(url, application).await,
            Engine::Sqlite { .. } => Err(Error::invalid("SQLite has no sessions")),
        }
    }
}

/// An open transaction, until it is released.
pub(crate) enum Held {
    Postgres(tokio_postgres::Client),
    Sqlite(rusqlite::Connection),
}

impl Held {
    /// Ends the transaction. An error means that it ended before.
    pub(crate) async fn release(self) -> Result<()> {
        match self {
            Held::Postgres(client) => client.batch_execute("ROLLBACK").await.map_err(broken),
            Held::Sqlite(connection) => connection.execute_batch("ROLLBACK").map_err(broken),
        }
    }
}

fn broken(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let mut text = error.to_string();
    if let Some(source) = error.source() {
        text = format!("{text}: {source}");
    }
    Error::new(ErrorKind::Unavailable, text).with_source(error)
}
