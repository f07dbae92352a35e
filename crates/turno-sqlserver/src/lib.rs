//! The SQL Server backend of turno.
//!
//! The operations are stored procedures (`sql/operations/`); this crate calls them, maps their rows and errors, and
//! installs them. It refuses to contain any rule of the queue: what a session of sqlcmd can do with the procedures is what
//! this crate does with them. No server was at hand when it was written: its README says what was verified, and how.
//!
//! One backend holds at most two connections. They are driven by a thread of the backend's own, so a caller whose
//! runtime is busy still gets its heartbeats through, and a call whose future is dropped runs to its end. A connection that
//! answered an error or fell silent is thrown away, since the protocol has no way to make a session new. The server notifies
//! nobody, so the doorbell rings for what this backend itself enqueues and sleepers of other processes look again after
//! their bounded pause.

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
mod transaction;

pub use backend::SqlServerBackend;
pub use call::Connection;
pub use options::SqlServerOptions;
pub use transaction::SettlingTransaction;

/// Chooses ring for rustls, unless the program has chosen already: the feature `tls` brings a second library of cryptography
/// into a program that may have ring for another database, and rustls refuses to choose between two. Does nothing without it.
pub fn choose_cryptography() {
    #[cfg(feature = "tls")]
    drop(rustls::crypto::ring::default_provider().install_default());
}
