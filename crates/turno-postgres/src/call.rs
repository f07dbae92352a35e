//! Making one call: a connection from the pool, a prepared statement, and the bounded retry of what the server rolled back.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use futures_util::future::join3;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;
use turno_contract::{Error, Result};

use crate::error::{from_call, from_pool, is_retryable};
use crate::options::PostgresOptions;
use crate::tls::connector;

/// Connections for calls. With the listener one process holds at most three.
const POOL_SIZE: usize = 2;
/// How often a call that the server rolled back is made again.
const RETRIES_MAX: u32 = 8;

/// One parameter with its type, which a call without prepared statements has to state.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// Calls routines, each in a transaction of its own.
pub(crate) struct Caller {
    pool: Pool,
    /// Places for patient calls.
    patient: Semaphore,
    prepared: bool,
    /// Set once a routine found that the role's or database's default isolation is not READ COMMITTED: calls then say
    /// so explicitly. Nothing is set on the session, which a pooler may hand to somebody else.
    explicit_isolation: AtomicBool,
    /// Calls that were made again, for the metrics.
    pub(crate) retries: AtomicU64,
}

/// A connection during a call. If the call is dropped before its answer came, the connection is closed: the statement
/// may run on, and the next call must not stand behind it.
struct Lent(Option<deadpool_postgres::Client>);

impl Lent {
    fn new(client: deadpool_postgres::Client) -> Self {
        Lent(Some(client))
    }

    fn client(&self) -> &deadpool_postgres::Client {
        self.0.as_ref().expect("it is there until it is given back")
    }

    fn give_back(mut self) -> deadpool_postgres::Client {
        self.0.take().expect("it is there until it is given back")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            drop(deadpool_postgres::Client::take(client));
        }
    }
}

/// Drives connections on the backend's own thread.
struct ConnectOn {
    handle: Handle,
    tls: MakeRustlsConnect,
}

impl deadpool_postgres::Connect for ConnectOn {
    fn connect(
        &self,
        config: &Config,
    ) -> Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), tokio_postgres::Error>> + Send + '_>>
    {
        let (config, handle, tls) = (config.clone(), self.handle.clone(), self.tls.clone());
        Box::pin(async move {
            let spawner = handle.clone();
            let task = handle.spawn(async move {
                let (client, connection) = config.connect(tls).await?;
                let driver = spawner.spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!(%error, "a connection ended");
                    }
                });
                Ok((client, driver))
            });
            task.await.expect("the connecting task neither panics nor is aborted")
        })
    }
}

impl Caller {
    pub(crate) fn new(options: &PostgresOptions, handle: &Handle) -> Result<Self> {
        let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let tls = connector(&options.target.verify)?;
        let connect = ConnectOn { handle: handle.clone(), tls };
        let manager = Manager::from_connect(options.target.config.clone(), connect, config);
        let pool = Pool::builder(manager).max_size(POOL_SIZE).build().map_err(|error| {
            Error::new(turno_contract::ErrorKind::Internal, "cannot make a pool").with_source(error)
        })?;
        Ok(Caller {
            pool,
            patient: Semaphore::new(POOL_SIZE - 1),
            prepared: options.prepared,
            explicit_isolation: AtomicBool::new(false),
            retries: AtomicU64::new(0),
        })
    }

    /// Calls once, or again if the server rolled it back.
    ///
    /// A patient call may wait for other people's transactions (a key that somebody is enqueueing, a row that somebody
    /// holds), so one connection is always left for the others: a heartbeat must not stand behind it.
    pub(crate) async fn call(&self, sql: &str, params: &[Param<'_>], patient: bool) -> Result<Vec<Row>> {
        let _turn = match patient {
            true => Some(self.patient.acquire().await.expect("the semaphore is never closed")),
            false => None,
        };
        let mut attempt = 0;
        loop {
            let lent = Lent::new(self.pool.get().await.map_err(from_pool)?);
            let explicit = self.explicit_isolation.load(Ordering::Relaxed);
            let outcome = self.once(lent.client(), sql, params, explicit).await;
            let client = lent.give_back();
            let error = match outcome {
                Ok(rows) => return Ok(rows),
                Err(error) => error,
            };
            attempt += 1;
            let again = attempt <= RETRIES_MAX
                && match error.code() {
                    Some(code) if code.code() == "TU002" && !explicit => {
                        self.explicit_isolation.store(true, Ordering::Relaxed);
                        true
                    }
                    // A prepared statement from before a migration, or from another session behind a pooler.
                    Some(code) if matches!(code.code(), "0A000" | "26000") => {
                        client.statement_cache.clear();
                        true
                    }
                    Some(code) => is_retryable(code),
                    None => false,
                };
            if !again {
                return Err(from_call(error));
            }
            self.retries.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%error, attempt, "the server rolled a call back; calling again");
            drop(client);
            let ceiling_ms = 5u64 << attempt.min(7);
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..=ceiling_ms))).await;
        }
    }

    async fn once(
        &self,
        client: &deadpool_postgres::Client,
        sql: &str,
        params: &[Param<'_>],
        explicit: bool,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        if !explicit {
            return self.query(client, sql, params).await;
        }
        // Prepared first: the three below must reach the server in this order, and do so in one round trip.
        self.prepare(client, sql, params).await?;
        let (begun, rows, committed) = join3(
            client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED"),
            self.query(client, sql, params),
            client.batch_execute("COMMIT"),
        )
        .await;
        begun?;
        let rows = rows?;
        committed?;
        Ok(rows)
    }

    async fn query(
        &self,
        client: &deadpool_postgres::Client,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        match self.prepare(client, sql, params).await? {
            Some(statement) => {
                let values: Vec<_> = params.iter().map(|(value, _)| *value).collect();
                client.query(&statement, &values).await
            }
            None => client.query_typed(sql, params).await,
        }
    }

    async fn prepare(
        &self,
        client: &deadpool_postgres::Client,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Option<Statement>, tokio_postgres::Error> {
        if !self.prepared {
            return Ok(None);
        }
        let types: Vec<Type> = params.iter().map(|(_, ty)| ty.clone()).collect();
        client.prepare_typed_cached(sql, &types).await.map(Some)
    }

    /// Connections of the pool, and calls that were made again.
    pub(crate) fn usage(&self) -> (u64, u64) {
        (self.pool.status().size as u64, self.retries.load(Ordering::Relaxed))
    }

    /// A connection of its own for a migration, which is a conversation and not a call.
    pub(crate) async fn connection(&self) -> Result<deadpool_postgres::Client> {
        self.pool.get().await.map_err(from_pool)
    }
}
