//! The SQLite backend of turno: a durable job queue inside a database file.
//!
//! For programs that keep their data in SQLite, alone or as several processes on one machine. [`SqliteBackend`] offers
//! every operation of [`turno_contract::Backend`]; [`enqueue_in`], [`enqueue_many_in`] and [`SettlingTransaction`] work
//! inside a transaction of your own, so that your rows and turno's commit together.
//!
//! The statements are in `sql/operations/`, one file per operation, for any client to read and run inside
//! `BEGIN IMMEDIATE`. This crate refuses databases on a network file system, where SQLite's write-ahead log is not safe.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use turno_contract::{Backend, ClaimRequest, Completion, NewJob};
//! use turno_sqlite::{SettlingTransaction, SqliteBackend, SqliteOptions};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("shop.db");
//! # let path = path.to_str().unwrap();
//! let backend = SqliteBackend::connect(path, SqliteOptions::default()).await?;
//! backend.migrate(false).await?;
//! backend.enqueue(&[NewJob::new("mail", "welcome", r#"{"to":"ada"}"#)]).await?;
//!
//! // The handler's own rows and the job's completion commit together, or neither does.
//! let claimed = backend.claim(&ClaimRequest::one("mail", "worker-1")).await?;
//! let mut connection = rusqlite::Connection::open(path)?;
//! let mut transaction = SettlingTransaction::begin(&mut connection)?;
//! transaction.execute_batch("CREATE TABLE sent (address TEXT)")?;
//! transaction.execute("INSERT INTO sent VALUES (?1)", ["ada"])?;
//! transaction.complete("worker-1", &Completion { proof: claimed.jobs[0].proof, result: None })?;
//! transaction.commit()?;
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```

#![forbid(unsafe_code)]

mod backend;
mod bell;
mod connection;
mod doctor;
mod error;
mod lanes;
mod migrate;
mod operations;
mod options;
mod reader;
mod rows;
mod statements;
#[cfg(test)]
mod tests;
mod transaction;
mod work;
mod writer;

pub use backend::SqliteBackend;
pub use options::SqliteOptions;
pub use transaction::{SettlingTransaction, complete_in, enqueue_in, enqueue_many_in};
