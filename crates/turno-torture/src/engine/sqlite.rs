//! SQLite: connections of torture's own to the file. It refuses to write anything but through turno's own functions.

use std::time::Duration;

use turno::sqlite::SettlingTransaction;
use turno::{Completion, Error, ErrorKind, Result, Settled};

use super::broken;

/// How long a connection of torture waits for the one writer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The file that the URL names.
pub(super) fn path(url: &str) -> String {
    let rest = url.strip_prefix("sqlite:").unwrap_or(url);
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    rest.split('?').next().unwrap_or(rest).to_owned()
}

fn open(path: &str) -> Result<rusqlite::Connection> {
    let connection = rusqlite::Connection::open(path).map_err(broken)?;
    connection.busy_timeout(PATIENCE).map_err(broken)?;
    Ok(connection)
}

pub(super) async fn complete_in(
    path: &str,
    worker: &str,
    completion: Completion,
    hold: impl FnOnce() + Send + 'static,
) -> Result<Settled> {
    let (path, worker) = (path.to_owned(), worker.to_owned());
    let work = move || {
        let mut connection = open(&path)?;
        let mut transaction = SettlingTransaction::begin(&mut connection)?;
        let settled = transaction.complete(&worker, &completion)?;
        hold();
        transaction.commit()?;
        Ok(settled)
    };
    blocking(work).await
}

pub(super) async fn hold(path: &str) -> Result<rusqlite::Connection> {
    let path = path.to_owned();
    let work = move || {
        let connection = open(&path)?;
        connection.execute_batch("BEGIN IMMEDIATE").map_err(broken)?;
        Ok(connection)
    };
    blocking(work).await
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let lost = |_| Error::new(ErrorKind::Internal, "a transaction's thread ended early");
    tokio::task::spawn_blocking(work).await.map_err(lost)?
}
