//! turno: a durable job queue that lives inside the SQL database you already run. This crate is what an application
//! adds: [`connect`], a [`Queue`] for producers, and a [`Worker`] with typed handlers.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use turno::{Context, JobError, Queue, Worker};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Mail {
//!     to: String,
//! }
//!
//! async fn send(context: Context, mail: Mail) -> Result<String, JobError> {
//!     // Every attempt of a job shows the same operation id: pass it on as the idempotency key.
//!     Ok(format!("{} got {}", mail.to, context.operation_id()))
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let runtime = tokio::runtime::Runtime::new()?;
//! # runtime.block_on(async {
//! # let folder = tempfile::tempdir()?;
//! # let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
//! let backend = turno::connect(&url).await?; // sqlite:jobs.db, postgres://user@host/database
//! backend.migrate(false).await?;
//!
//! let job = Queue::new(backend.clone(), "mail").enqueue("send", &Mail { to: "ada".into() }).await?;
//!
//! let worker = Worker::builder(backend.clone()).queue("mail").handler("send", send).build()?;
//! let handle = worker.handle();
//! # let stop = handle.clone();
//! # tokio::spawn(async move {
//! #     while stop.metrics().succeeded == 0 {
//! #         tokio::time::sleep(std::time::Duration::from_millis(5)).await;
//! #     }
//! #     stop.shutdown();
//! # });
//! turno::signals::shutdown_on_signals(handle)?;
//! let report = worker.run().await?; // until SIGTERM, Ctrl-C or handle.shutdown()
//! # assert_eq!(report.metrics.succeeded, 1);
//! # assert!(backend.job(job.id).await?.unwrap().result.unwrap().starts_with("\"ada got "));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })
//! # }
//! ```
//!
//! What holds, in short (`docs/contract.md` has the rules): a job runs at least once and exactly one completion of it is
//! accepted. Handlers run on the runtime that called [`Worker::run`]; claims, heartbeats and verdicts have a thread of
//! their own, so a handler that blocks costs no lease. A handler is told by its [`Context`] when it shall stop: its lease
//! was lost, somebody cancelled the job, its time is over, or the worker shuts down.
//!
//! This crate knows no SQL and refuses to hide it: the operations are stored routines or statement files of the backends
//! ([`sqlite`], [`postgres`]), which any other language can call as well.

mod builder;
pub mod calendar;
mod connect;
mod context;
mod control;
mod handler;
mod hook;
mod job_error;
mod metrics;
#[cfg(feature = "prometheus")]
mod metrics_jobs;
#[cfg(feature = "prometheus")]
mod metrics_queues;
#[cfg(feature = "otel")]
pub mod otel;
#[cfg(feature = "prometheus")]
#[path = "metrics_prometheus.rs"]
pub mod prometheus;
mod queue;
mod report;
mod retry;
mod schedules;
pub mod signals;
mod worker;

pub use builder::WorkerBuilder;
pub use connect::{connect, redact};
pub use context::{CancelCause, Context};
pub use hook::{Event, Hook, JobResult, Next};
pub use job_error::JobError;
pub use metrics::Metrics;
pub use queue::Queue;
pub use report::{Leftover, Report, StoppedBy};
pub use retry::RetryPolicy;
pub use schedules::{Schedules, Ticked};
pub use worker::{Worker, WorkerHandle};

pub use turno_contract::*;

/// MySQL and MariaDB: their backend, and operations in a transaction of your own.
#[cfg(feature = "mysql")]
pub use turno_mysql as mysql;
/// PostgreSQL: its backend, and operations in a transaction of your own.
#[cfg(feature = "postgres")]
pub use turno_postgres as postgres;
/// SQLite: its backend, and operations in a transaction of your own.
#[cfg(feature = "sqlite")]
pub use turno_sqlite as sqlite;
/// SQL Server: its backend, and operations in a transaction of your own.
#[cfg(feature = "sqlserver")]
pub use turno_sqlserver as sqlserver;
