//! PostgreSQL: sessions of torture's own beside the backend's. It refuses to touch a row that is not one of the run's.

use turno::postgres::PostgresBackend;
use turno::{Completion, JobId, Result, Settled};

use super::{Address, broken, split, without};

const TERMINATE: &str =
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1";

/// The URL without turno's own parameters, which the driver does not know.
fn strip_parameters(url: &str) -> String {
    let Some((base, query)) = url.split_once('?') else { return url.to_owned() };
    let kept: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("turno_")).collect();
    if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) }
}

/// The URL with another host and port, without TLS (the proxy reads what passes), under this application name; and the
/// server's own address.
pub(super) fn with_host(url: &str, address: &str, application: &str) -> Option<(String, String)> {
    let Address { scheme, user, server, database, query } = split(url, 5432)?;
    let query = without(query, &["sslmode", "sslrootcert", "application_name", "turno_listen"]);
    let query = if query.is_empty() { query } else { format!("{query}&") };
    let ours = format!("sslmode=disable&application_name={application}");
    Some((format!("{scheme}://{user}{address}/{database}?{query}{ours}"), server))
}

/// The schema that the URL chooses.
fn schema(url: &str) -> String {
    let chosen = url.split(['?', '&']).find_map(|pair| pair.strip_prefix("turno_schema="));
    chosen.unwrap_or("turno").to_owned()
}

pub(super) async fn session(url: &str) -> Result<tokio_postgres::Client> {
    let config: tokio_postgres::Config = strip_parameters(url).parse().map_err(broken)?;
    let (client, connection) = config.connect(tokio_postgres::NoTls).await.map_err(broken)?;
    tokio::spawn(connection);
    Ok(client)
}

pub(super) async fn complete_in(
    backend: &PostgresBackend,
    url: &str,
    worker: &str,
    completion: Completion,
    hold: impl FnOnce() + Send + 'static,
) -> Result<Settled> {
    let mut client = session(url).await?;
    let transaction = client.transaction().await.map_err(broken)?;
    let settled = backend.complete_in(&transaction, worker, &completion).await?;
    // Its panic would be a panic of the gate, which has none.
    let _ = tokio::task::spawn_blocking(hold).await;
    transaction.commit().await.map_err(|error| broken(error).with_outcome_unknown())?;
    Ok(settled)
}

pub(super) async fn hold_row(url: &str, job: JobId) -> Result<tokio_postgres::Client> {
    let client = session(url).await?;
    let sql = format!(
        "SELECT id FROM {}.job WHERE id = {job} AND state = 'running' FOR UPDATE SKIP LOCKED",
        schema(url)
    );
    client.batch_execute("BEGIN").await.map_err(broken)?;
    if client.query(&sql, &[]).await.map_err(broken)?.is_empty() {
        return Err(turno::Error::new(turno::ErrorKind::NotFound, "the job runs no more"));
    }
    Ok(client)
}

pub(super) async fn terminate(url: &str, application: &str) -> Result<u64> {
    let client = session(url).await?;
    let row = client.query_one(TERMINATE, &[&application]).await.map_err(broken)?;
    Ok(row.get::<_, i64>(0).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_led_through_the_proxy() {
        let (url, server) =
            with_host("postgres://u:p@db:5433/app?sslmode=require&turno_schema=x", "127.0.0.1:9", "w1")
                .unwrap();
        assert_eq!(url, "postgres://u:p@127.0.0.1:9/app?turno_schema=x&sslmode=disable&application_name=w1");
        assert_eq!(server, "db:5433");
        assert_eq!(schema(&url), "x");
        assert_eq!(with_host("postgres://db/app", "h:1", "w").unwrap().1, "db:5432");
        assert_eq!(strip_parameters("postgres://h/d?turno_schema=x&a=b"), "postgres://h/d?a=b");
    }
}
