//! Making one call: a connection of the backend's two, a prepared statement, and the bounded retry of what the server
//! rolled back. Everything runs on the backend's own thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Row, Value};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::Semaphore;
use turno_contract::{Error, ErrorKind, Result, Usage};

use crate::error::{from_call, from_connect, is_retryable, leaves_session_clean, may_be_migrating};
use crate::options::MysqlOptions;

/// Connections of one backend.
const POOL_SIZE: usize = 2;
/// A call that the server rolled back is made again for this long, whatever the number of times: where a disk or a processor
/// is slow, transactions meet more often, and a count would be used up in no time. Well within a lease, so that a claim that
/// nobody waits for any more does not take jobs.
const RETRY_TIME_MAX: Duration = Duration::from_secs(10);
/// The longest pause before a call is made again.
const RETRY_PAUSE_MAX_MS: u64 = 640;
/// A connection that was idle for longer is asked whether it is still there.
const IDLE_MAX: Duration = Duration::from_secs(1);
/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// One CALL: its text and its parameters.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) sql: String,
    pub(crate) params: Vec<Value>,
}

/// Calls routines, each in a transaction of its own.
pub(crate) struct Caller {
    shared: Arc<Shared>,
    /// Last, so that it ends after what runs on it.
    driver: Driver,
}

struct Shared {
    options: MysqlOptions,
    idle: Mutex<Vec<(Conn, Instant)>>,
    places: Semaphore,
    /// Places for patient calls.
    patient: Semaphore,
    /// Calls that were made again, for the metrics.
    retries: AtomicU64,
}

/// The thread that drives the connections.
struct Driver(Option<Runtime>);

impl Driver {
    fn start() -> Result<Self> {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("turno-mysql")
            .enable_all()
            .build()
            .map(|runtime| Driver(Some(runtime)))
            .map_err(|error| Error::new(ErrorKind::Internal, "cannot start a thread").with_source(error))
    }

    fn handle(&self) -> &Handle {
        self.0.as_ref().expect("the runtime is there until drop").handle()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // A runtime may not wait for its tasks inside another runtime.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // A connection says goodbye on the runtime that it is dropped in.
        let _entered = self.driver.handle().enter();
        self.shared.idle.lock().expect("no holder panics").clear();
    }
}

impl Caller {
    pub(crate) fn new(options: MysqlOptions) -> Result<Self> {
        let shared = Shared {
            options,
            idle: Mutex::new(Vec::new()),
            places: Semaphore::new(POOL_SIZE),
            patient: Semaphore::new(POOL_SIZE - 1),
            retries: AtomicU64::new(0),
        };
        Ok(Caller { shared: Arc::new(shared), driver: Driver::start()? })
    }

    /// Runs this on the backend's thread, to its end even if nobody waits for it any more.
    pub(crate) async fn on_own_thread<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        match self.driver.handle().spawn(future).await {
            Ok(result) => result,
            Err(error) => Err(Error::new(ErrorKind::Internal, format!("a call ended badly: {error}"))),
        }
    }

    /// Calls once, or again if the server rolled it back.
    ///
    /// A patient call may wait for other people's transactions (a key that somebody is enqueueing, a row that somebody
    /// holds), so one connection is always left for the others: a heartbeat must not stand behind it.
    pub(crate) async fn call(&self, call: Call, patient: bool) -> Result<Vec<Row>> {
        let shared = self.shared.clone();
        self.on_own_thread(async move {
            let mut all = shared.call_together(&[call], patient).await?;
            Ok(all.pop().unwrap_or_default())
        })
        .await
    }

    /// Calls in one transaction, all or none, if there is more than one. Patient.
    pub(crate) async fn call_together(&self, calls: Vec<Call>) -> Result<Vec<Vec<Row>>> {
        let shared = self.shared.clone();
        self.on_own_thread(async move { shared.call_together(&calls, true).await }).await
    }

    pub(crate) fn repeated(&self) -> u64 {
        self.shared.retries.load(Ordering::Relaxed)
    }

    /// Connections, idle or at work, and calls that were made again.
    pub(crate) fn usage(&self) -> Usage {
        let idle = self.shared.idle.lock().expect("no holder panics").len();
        let at_work = POOL_SIZE.saturating_sub(self.shared.places.available_permits());
        Usage { connections: (idle + at_work) as u64, calls_repeated: self.repeated() }
    }

    /// Rings later, for what a caller's transaction has enqueued and not committed yet.
    pub(crate) fn later(&self, after: Duration, then: impl FnOnce() + Send + 'static) {
        self.driver.handle().spawn(async move {
            tokio::time::sleep(after).await;
            then();
        });
    }

    /// A connection of its own for a migration, which is a conversation and not a call.
    pub(crate) async fn with_connection<T, F>(
        &self,
        talk: impl FnOnce(Conn) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let shared = self.shared.clone();
        self.on_own_thread(async move { talk(shared.connect().await?).await }).await
    }
}

impl Shared {
    async fn connect(&self) -> Result<Conn> {
        match tokio::time::timeout(CONNECT_MAX, Conn::new(self.options.target.clone())).await {
            Ok(connected) => connected.map_err(from_connect),
            Err(_) => Err(Error::new(
                ErrorKind::Unavailable,
                format!("cannot connect to MySQL within {CONNECT_MAX:?}"),
            )),
        }
    }

    async fn connection(&self) -> Result<Conn> {
        loop {
            let idle = self.idle.lock().expect("no holder panics").pop();
            match idle {
                None => return self.connect().await,
                Some((connection, since)) if since.elapsed() < IDLE_MAX => return Ok(connection),
                Some((mut connection, _)) => {
                    if connection.ping().await.is_ok() {
                        return Ok(connection);
                    }
                }
            }
        }
    }

    async fn call_together(&self, calls: &[Call], patient: bool) -> Result<Vec<Vec<Row>>> {
        let begun = Instant::now();
        let mut attempt = 0;
        let _turn = match patient {
            true => Some(self.patient.acquire().await.expect("the places are never closed")),
            false => None,
        };
        let _place = self.places.acquire().await.expect("the places are never closed");
        loop {
            let mut connection = self.connection().await?;
            let error = match once(&mut connection, calls).await {
                Ok(answers) => {
                    self.keep(connection);
                    return Ok(answers);
                }
                Err(error) => error,
            };
            if leaves_session_clean(&error) {
                self.keep(connection);
            }
            attempt += 1;
            let retryable = matches!(&error, mysql_async::Error::Server(server) if is_retryable(server.code));
            if !retryable || begun.elapsed() > RETRY_TIME_MAX {
                return Err(self.explain(error).await);
            }
            self.retries.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%error, attempt, "the server rolled a call back; calling again");
            let ceiling_ms = (5u64 << attempt.min(16)).min(RETRY_PAUSE_MAX_MS);
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..=ceiling_ms))).await;
        }
    }

    fn keep(&self, connection: Conn) {
        self.idle.lock().expect("no holder panics").push((connection, Instant::now()));
    }

    /// A routine that is missing while a migration is marked will be there soon.
    async fn explain(&self, error: mysql_async::Error) -> Error {
        if may_be_migrating(&error) && self.is_migrating().await {
            return Error::new(ErrorKind::Unavailable, "a migration is making the routines anew")
                .with_source(error);
        }
        from_call(error)
    }

    async fn is_migrating(&self) -> bool {
        let Ok(mut connection) = self.connect().await else { return false };
        let sql = format!("CALL {}.schema_version()", self.options.schema);
        let row: Result<Option<Row>, _> = connection.exec_first(sql, ()).await;
        row.is_ok_and(|row| row.is_some_and(|row| row.get::<bool, _>("migrating") == Some(true)))
    }
}

async fn once(connection: &mut Conn, calls: &[Call]) -> Result<Vec<Vec<Row>>, mysql_async::Error> {
    let together = calls.len() > 1;
    if together {
        connection.query_drop("SET TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
        connection.query_drop("START TRANSACTION").await?;
    }
    let mut answers = Vec::with_capacity(calls.len());
    for call in calls {
        match exec(connection, &call.sql, call.params.clone()).await {
            Ok(rows) => answers.push(rows),
            Err(error) => {
                if together && leaves_session_clean(&error) {
                    connection.query_drop("ROLLBACK").await?;
                }
                return Err(error);
            }
        }
    }
    if together {
        connection.query_drop("COMMIT").await?;
    }
    Ok(answers)
}

/// The rows of the one result set of a routine. What comes after it is read to the end, since a commit may still fail.
pub(crate) async fn exec(
    connection: &mut impl Queryable,
    sql: &str,
    params: Vec<Value>,
) -> Result<Vec<Row>, mysql_async::Error> {
    let params = if params.is_empty() { Params::Empty } else { Params::Positional(params) };
    let mut result = connection.exec_iter(sql, params).await?;
    let rows = result.collect().await?;
    result.drop_result().await?;
    Ok(rows)
}
