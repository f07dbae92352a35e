//! SQL Server: sessions of torture's own beside the backend's. It refuses to touch a row that is not one of the run's. No
//! server has run it yet: see docs/verification.md.

use turno::sqlserver::{Connection, SettlingTransaction, SqlServerBackend, SqlServerOptions};
use turno::{Completion, Error, ErrorKind, JobId, Result, Settled};

use super::{Address, broken, split, without};

/// The session has ended by itself: error 6106.
const NO_SUCH_SESSION: u32 = 6106;

/// The URL with another host and port, without TLS (the proxy reads what passes), under this application name; and the
/// server's own address.
pub(super) fn with_host(url: &str, address: &str, application: &str) -> Option<(String, String)> {
    let Address { scheme, user, server, database, query } = split(url, 1433)?;
    let query = without(
        query,
        &[
            "encrypt",
            "trust_server_certificate",
            "TrustServerCertificate",
            "ca_file",
            "host_name_in_certificate",
            "application_name",
        ],
    );
    let query = if query.is_empty() { query } else { format!("{query}&") };
    let ours = format!("encrypt=false&application_name={application}");
    Some((format!("{scheme}://{user}{address}/{database}?{query}{ours}"), server))
}

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

/// Needs VIEW SERVER STATE to see the sessions and ALTER ANY CONNECTION to end them.
pub(super) async fn terminate(url: &str, application: &str) -> Result<u64> {
    let mut connection = url.parse::<SqlServerOptions>()?.connect().await?;
    let sql =
        "SELECT CONVERT(bigint, session_id) AS session_id FROM sys.dm_exec_sessions WHERE program_name = @P1";
    let sessions = connection.query(sql, &[&application]).await.map_err(broken)?;
    let mut ended = 0;
    for row in sessions.into_first_result().await.map_err(broken)? {
        let session: i64 = row.try_get(0).map_err(broken)?.unwrap_or_default();
        // KILL takes no parameter.
        let killed = match connection.simple_query(format!("KILL {session}")).await {
            Ok(answer) => answer.into_results().await,
            Err(error) => Err(error),
        };
        match killed {
            Ok(_) => ended += 1,
            Err(error) if error.code() == Some(NO_SUCH_SESSION) => {}
            Err(error) => return Err(broken(error)),
        }
    }
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_sqlserver::{Cell, Fake, Reply};

    #[test]
    fn a_url_is_led_through_the_proxy() {
        let url = "mssql://u:p@db:1434/app?encrypt=strict&turno_schema=x&ca_file=%2Fca.pem";
        let (url, server) = with_host(url, "127.0.0.1:9", "w1").unwrap();
        assert_eq!(url, "mssql://u:p@127.0.0.1:9/app?turno_schema=x&encrypt=false&application_name=w1");
        assert_eq!(server, "db:1434");
        assert_eq!(url.parse::<SqlServerOptions>().unwrap().schema_name(), "x");
        assert_eq!(with_host("sqlserver://u:p@db/app", "h:1", "w").unwrap().1, "db:1433");
    }

    /// Against a server that only speaks the protocol: no SQL Server has been at hand.
    #[tokio::test]
    async fn the_sessions_of_one_application_are_ended_and_one_that_is_gone_is_not_counted() {
        let session = |id| vec![Cell::Number(Some(id))];
        let fake = Fake::start(move |request| match request {
            _ if request.contains("program_name") => {
                Reply::Rows(vec!["session_id"], vec![session(51), session(52), session(53)])
            }
            _ if request.contains("KILL 52") => Reply::Error(NO_SUCH_SESSION, "not an active process ID"),
            _ => Reply::Done,
        })
        .await;
        assert_eq!(terminate(&fake.url(), "torture-worker-1").await.unwrap(), 2);
        let seen = ["torture-worker-1", "KILL 51", "KILL 52", "KILL 53"].map(|text| fake.count(text));
        assert_eq!(seen, [1, 1, 1, 1]);
    }
}
