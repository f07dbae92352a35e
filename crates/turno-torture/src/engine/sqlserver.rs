//! SQL Server: sessions of torture's own beside the backend's. It refuses to touch a row that is not one of the run's. No
//! server has run it yet, and there is no proxy for its protocol: see docs/verification.md.

use turno::sqlserver::{Connection, SettlingTransaction, SqlServerBackend, SqlServerOptions};
use turno::{Completion, Error, ErrorKind, JobId, Result, Settled};

use super::broken;

pub(super) async fn complete_in(
    backend: &SqlServerBackend,
    url: &str,
    worker: &str,
    completion: Completion,
    hold: impl FnOnce() + Send + 'static,
) -> Result<Settled> {
    let connection = url.parse::<SqlServerOptions>()?.connect().await?;
    let mut transaction = SettlingTransaction::begin(backend, connection).await?;
    let settled = transaction.complete(worker, &completion).await?;
    // Its panic would be a panic of the gate, which has none.
    let _ = tokio::task::spawn_blocking(hold).await;
    transaction.commit().await.map_err(Error::with_outcome_unknown)?;
    Ok(settled)
}

pub(super) async fn hold_row(url: &str, job: JobId) -> Result<Connection> {
    let options = url.parse::<SqlServerOptions>()?;
    let mut connection = options.connect().await?;
    let sql = format!(
        "BEGIN TRANSACTION; SELECT id FROM {}.unfinished_job WITH (UPDLOCK, READPAST, READCOMMITTEDLOCK, ROWLOCK) \
         WHERE id = {job} AND state = 'running'",
        options.schema_name()
    );
    let row = connection.simple_query(sql).await.map_err(broken)?.into_row().await.map_err(broken)?;
    match row {
        Some(_) => Ok(connection),
        None => Err(Error::new(ErrorKind::NotFound, "the job runs no more")),
    }
}

pub(super) async fn roll_back(mut connection: Connection) -> Result<()> {
    let ended = connection.simple_query("ROLLBACK TRANSACTION").await.map_err(broken)?;
    ended.into_results().await.map(drop).map_err(broken)
}
