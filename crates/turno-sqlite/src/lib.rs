//! The SQLite backend of turno: a durable job queue inside a database file.
//!
//! For programs that keep their data in SQLite, alone or as several processes on one machine. [`SqliteBackend`] offers
//! every operation of [`turno_contract::Backend`]; [`enqueue_in`], [`enqueue_many_in`] and [`SettlingTransaction`] work
//! inside a transaction of your own, so that your rows and turno's commit together.
//!
//! The statements are in `sql/operations/`, one file per operation, for any client to read and run inside
//! `BEGIN IMMEDIATE`. This crate refuses databases on a network file system, where SQLite's write-ahead log is not safe.

#![forbid(unsafe_code)]

mod backend;
mod bell;
mod connection;
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
