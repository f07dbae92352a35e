//! turno: a durable job queue that lives inside your SQL database. This crate is what an application adds.

mod builder;
mod connect;
mod context;
mod control;
mod handler;
mod hook;
mod job_error;
mod metrics;
mod queue;
mod report;
mod retry;
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
pub use worker::{Worker, WorkerHandle};

pub use turno_contract::*;

/// PostgreSQL: its backend, and operations in a transaction of your own.
#[cfg(feature = "postgres")]
pub use turno_postgres as postgres;
/// SQLite: its backend, and operations in a transaction of your own.
#[cfg(feature = "sqlite")]
pub use turno_sqlite as sqlite;
