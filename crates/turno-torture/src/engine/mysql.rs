//! MySQL and MariaDB: sessions of torture's own beside the backend's. It refuses to touch a row that is not one of the
//! run's.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use turno::mysql::{MysqlBackend, SettlingTransaction};
use turno::{Completion, Error, ErrorKind, JobId, Result, Settled};

use super::{Address, broken, split, without};

/// The session has ended by itself: error 1094.
const NO_SUCH_THREAD: u16 = 1094;

/// The URL with another host and port, without TLS (the proxy reads what passes); and the server's own address.
pub(super) fn with_host(url: &str, address: &str) -> Option<(String, String)> {
    let Address { scheme, user, server, database, query } = split(url, 3306)?;
    let query = without(query, &["require_ssl", "verify_ca", "verify_identity", "socket", "compression"]);
    let query = if query.is_empty() { query } else { format!("?{query}") };
    Some((format!("{scheme}://{user}{address}/{database}{query}"), server))
}

/// The database that the URL chooses for turno.
fn schema(url: &str) -> String {
    let chosen = url.split(['?', '&']).find_map(|pair| pair.strip_prefix("turno_schema="));
    chosen.unwrap_or("turno").to_owned()
}

/// The URL as the driver knows it: its own scheme, and without turno's own parameters.
fn driver_url(url: &str) -> String {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let base = base.strip_prefix("mariadb:").map_or_else(|| base.to_owned(), |rest| format!("mysql:{rest}"));
    let kept: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("turno_")).collect();
    if query.is_empty() || kept.is_empty() { base } else { format!("{base}?{}", kept.join("&")) }
}

pub(super) async fn session(url: &str) -> Result<Conn> {
    let options = Opts::from_url(&driver_url(url)).map_err(broken)?;
    Conn::new(OptsBuilder::from_opts(options).prefer_socket(false)).await.map_err(broken)
}

pub(super) async fn complete_in(
    backend: &MysqlBackend,
    url: &str,
    worker: &str,
    completion: Completion,
    hold: impl FnOnce() + Send + 'static,
) -> Result<Settled> {
    let mut transaction = SettlingTransaction::begin(backend, session(url).await?).await?;
    let settled = transaction.complete(worker, &completion).await?;
    // Its panic would be a panic of the gate, which has none.
    let _ = tokio::task::spawn_blocking(hold).await;
    transaction.commit().await.map_err(Error::with_outcome_unknown)?;
    Ok(settled)
}

pub(super) async fn hold_row(url: &str, job: JobId) -> Result<Conn> {
    let mut connection = session(url).await?;
    let sql = format!(
        "SELECT id FROM {}.job WHERE id = {job} AND state = 'running' FOR UPDATE SKIP LOCKED",
        schema(url)
    );
    connection.query_drop("SET TRANSACTION ISOLATION LEVEL READ COMMITTED").await.map_err(broken)?;
    connection.query_drop("START TRANSACTION").await.map_err(broken)?;
    match connection.query_first::<i64, _>(sql).await.map_err(broken)? {
        Some(_) => Ok(connection),
        None => Err(Error::new(ErrorKind::NotFound, "the job runs no more")),
    }
}

/// Ends these sessions; answers how many were still there.
pub(super) async fn terminate(url: &str, sessions: &[u32]) -> Result<u64> {
    let mut connection = session(url).await?;
    let mut ended = 0;
    for session in sessions {
        match connection.query_drop(format!("KILL {session}")).await {
            Ok(()) => ended += 1,
            Err(mysql_async::Error::Server(error)) if error.code == NO_SUCH_THREAD => {}
            Err(error) => return Err(broken(error)),
        }
    }
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_led_through_the_proxy() {
        let (url, server) =
            with_host("mariadb://u:p@db/app?require_ssl=true&turno_schema=x", "127.0.0.1:9").unwrap();
        assert_eq!(
            (url.as_str(), server.as_str()),
            ("mariadb://u:p@127.0.0.1:9/app?turno_schema=x", "db:3306")
        );
        assert_eq!(schema(&url), "x");
        assert_eq!(driver_url(&url), "mysql://u:p@127.0.0.1:9/app");
        assert_eq!(driver_url("mysql://h:1/?turno_schema=x&a=b"), "mysql://h:1/?a=b");
    }
}
