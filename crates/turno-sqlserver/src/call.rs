//! Making one call: a connection of the backend's two, and the bounded retry of what the server rolled back. Everything
//! runs on the backend's own thread. A connection is kept only after a call that ended well: an error, a timeout or a
//! dropped call may leave half an answer on the wire or a transaction open, and closing the connection ends both.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tiberius::error::Error as DriverError;
use tiberius::{Client, ColumnData, Row, ToSql};
use time::PrimitiveDateTime;
use tokio::net::TcpStream;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::Semaphore;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};
use turno_contract::{Error, ErrorKind, Result, Usage};
use uuid::Uuid;

use crate::error::{from_call, from_connect, is_retryable};
use crate::options::SqlServerOptions;

/// A connection of the driver, as [`enqueue_in`](crate::SqlServerBackend::enqueue_in) and its kind take it.
pub type Connection = Client<Compat<TcpStream>>;

/// Connections of one backend.
const POOL_SIZE: usize = 2;
/// How often a call that the server rolled back is made again.
const RETRIES_MAX: u32 = 8;
/// No call is made again after this long.
const RETRY_TIME_MAX: Duration = Duration::from_secs(60);
/// A connection that was idle for longer is asked whether it is still there.
const IDLE_MAX: Duration = Duration::from_secs(1);
/// How long connecting may take, from the name to the login.
const CONNECT_MAX: Duration = Duration::from_secs(15);

/// One argument, of the type that its parameter has.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// A bigint.
    Number(Option<i64>),
    /// An nvarchar.
    Text(Option<String>),
    /// A uniqueidentifier.
    Uuid(Uuid),
    /// A bit.
    Bit(bool),
    /// A datetime2 in UTC.
    Instant(Option<PrimitiveDateTime>),
}

impl ToSql for Value {
    fn to_sql(&self) -> ColumnData<'_> {
        match self {
            Value::Number(number) => number.to_sql(),
            Value::Text(text) => ColumnData::String(text.as_deref().map(Cow::Borrowed)),
            Value::Uuid(uuid) => ColumnData::Guid(Some(*uuid)),
            Value::Bit(bit) => ColumnData::Bit(Some(*bit)),
            Value::Instant(at) => at.to_sql(),
        }
    }
}

macro_rules! value_from {
    ($($from:ty, $value:ident => $to:expr;)+) => {
        $(impl From<$from> for Value {
            fn from($value: $from) -> Self {
                $to
            }
        })+
    };
}

value_from! {
    i64, number => Value::Number(Some(number));
    i32, number => Value::Number(Some(number.into()));
    u32, number => Value::Number(Some(number.into()));
    Option<i64>, number => Value::Number(number);
    Option<i32>, number => Value::Number(number.map(i64::from));
    Option<u32>, number => Value::Number(number.map(i64::from));
    &str, text => Value::Text(Some(text.to_owned()));
    String, text => Value::Text(Some(text));
    Option<&str>, text => Value::Text(text.map(str::to_owned));
    Option<String>, text => Value::Text(text);
    Uuid, uuid => Value::Uuid(uuid);
    bool, bit => Value::Bit(bit);
    Option<PrimitiveDateTime>, at => Value::Instant(at);
}

/// One EXEC: its text and its arguments.
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
    options: SqlServerOptions,
    idle: Mutex<Vec<(Connection, Instant)>>,
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
            .thread_name("turno-sqlserver")
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
        // A socket leaves the runtime that it is registered with.
        let _entered = self.driver.handle().enter();
        self.shared.idle.lock().expect("no holder panics").clear();
    }
}

impl Caller {
    pub(crate) fn new(options: SqlServerOptions) -> Result<Self> {
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
        talk: impl FnOnce(Connection) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let shared = self.shared.clone();
        self.on_own_thread(async move { talk(connect(&shared.options).await?).await }).await
    }
}

/// A new connection, logged in.
pub(crate) async fn connect(options: &SqlServerOptions) -> Result<Connection> {
    let connecting = async {
        let stream = TcpStream::connect(&options.address).await.map_err(DriverError::from)?;
        stream.set_nodelay(true).map_err(DriverError::from)?;
        Client::connect(options.config.clone(), stream.compat_write()).await
    };
    match tokio::time::timeout(CONNECT_MAX, connecting).await {
        Ok(connected) => connected.map_err(from_connect),
        Err(_) => Err(Error::new(
            ErrorKind::Unavailable,
            format!("cannot connect to SQL Server within {CONNECT_MAX:?}"),
        )),
    }
}

impl Shared {
    async fn connection(&self) -> Result<Connection> {
        loop {
            let idle = self.idle.lock().expect("no holder panics").pop();
            match idle {
                None => return connect(&self.options).await,
                Some((connection, since)) if since.elapsed() < IDLE_MAX => return Ok(connection),
                Some((mut connection, _)) => {
                    if run(&mut connection, "SELECT 1 AS one").await.is_ok() {
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
            drop(connection);
            attempt += 1;
            if !is_retryable(&error) || attempt > RETRIES_MAX || begun.elapsed() > RETRY_TIME_MAX {
                return Err(from_call(error));
            }
            self.retries.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%error, attempt, "the server rolled a call back; calling again");
            let ceiling_ms = 5u64 << attempt.min(7);
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..=ceiling_ms))).await;
        }
    }

    fn keep(&self, connection: Connection) {
        self.idle.lock().expect("no holder panics").push((connection, Instant::now()));
    }
}

async fn once(connection: &mut Connection, calls: &[Call]) -> Result<Vec<Vec<Row>>, DriverError> {
    let together = calls.len() > 1;
    if together {
        run(connection, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN TRANSACTION").await?;
    }
    let mut answers = Vec::with_capacity(calls.len());
    for call in calls {
        answers.push(exec(connection, &call.sql, &call.params).await?);
    }
    if together {
        run(connection, "COMMIT TRANSACTION").await?;
    }
    Ok(answers)
}

/// The rows of the one result set of a routine. What comes after it is read to the end, since a commit may still fail.
pub(crate) async fn exec(
    connection: &mut Connection,
    sql: &str,
    params: &[Value],
) -> Result<Vec<Row>, DriverError> {
    let params: Vec<&dyn ToSql> = params.iter().map(|value| value as &dyn ToSql).collect();
    connection.query(sql, &params).await?.into_first_result().await
}

/// A batch without arguments; answers the rows of its first result set.
pub(crate) async fn run(connection: &mut Connection, sql: &str) -> Result<Vec<Row>, DriverError> {
    connection.simple_query(sql).await?.into_first_result().await
}
