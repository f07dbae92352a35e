//! The MySQL and MariaDB backend of turno.
//!
//! The operations are stored procedures (`sql/operations/`), one set of files for both servers; this crate calls them,
//! maps their rows and errors, and installs them. It refuses to contain any rule of the queue: what a session of the
//! `mysql` client can do with the procedures is what this crate does with them.
//!
//! One backend holds at most two connections. They are driven by a thread of the backend's own, so a caller whose
//! runtime is busy still gets its heartbeats through, and a call whose future is dropped runs to its end. The servers
//! cannot notify a session, so the doorbell rings for what this backend itself enqueues and sleepers of other
//! processes look again after their bounded pause.

mod backend;
mod batch;
mod call;
mod doctor;
mod error;
mod files;
mod migrate;
mod options;
mod rows;
mod schedules;
#[cfg(feature = "sqlx")]
mod sqlx;
mod transaction;

pub use backend::MysqlBackend;
pub use options::MysqlOptions;
pub use transaction::SettlingTransaction;
