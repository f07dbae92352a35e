//! `turno torture`: a fault test that anybody may run against their own database before they trust it. Real worker
//! processes (the program itself), real signals, and a real proxy between each of them and the server; what happens to
//! whom is drawn from a seed that is printed first.
//!
//! Everything that is checked comes from the database through the trait [`Backend`](turno::Backend): that each job ends
//! once, that no two leases overlap, that late results are refused and recorded, that failures are counted exactly, that
//! the audit is clean, and that everything settles once the faults are over. `docs/guarantees.md` says which fault proves
//! which promise. It refuses to pass what it did not run: the report names every fault that was left out.

mod checker;
mod effects;
mod engine;
/// A server that speaks SQL Server's protocol and knows no SQL.
#[cfg(all(test, feature = "sqlserver"))]
#[path = "../../turno-sqlserver/tests/fake/mod.rs"]
mod fake_sqlserver;
mod gate;
mod inject;
mod memory;
mod options;
mod plan;
mod process;
mod protocol;
mod proxy;
mod report;
mod run;
mod server;
mod slot;
mod story;
mod supervisor;
mod wire;
mod worker;
mod workload;

pub use options::{Fault, Options};
pub use report::{FaultLine, NotRun, Report};
pub use server::OwnServer;
pub use story::Violation;
pub use supervisor::run;
pub use worker::worker_main;

/// The hidden command under which the program runs [`worker_main`].
pub const WORKER_COMMAND: &str = "__torture-worker";
