//! The PostgreSQL backend of turno.
//!
//! The operations are stored routines (`sql/operations/`); this crate calls them, maps their rows and errors, and
//! installs them. It refuses to contain any rule of the queue: what a psql session can do with the routines is what this
//! crate does with them.
//!
//! One backend holds at most three connections: two for calls and one that listens for the doorbell. They are driven
//! by a thread of the backend's own, so a caller whose runtime is busy still gets its heartbeats through. No session
//! state is kept, so a pooler in transaction mode works; then use `turno_prepared=off`, and `turno_listen=off` or
//! `turno_listen=<another URL>`.

mod backend;
mod call;
mod doctor;
mod doorbell;
mod error;
mod files;
mod migrate;
mod options;
mod rows;
mod schedules;
mod session;
#[cfg(feature = "sqlx")]
mod sqlx;
mod tls;
mod transaction;

pub use backend::PostgresBackend;
pub use options::PostgresOptions;
