//! One module per command.

pub mod audit;
pub mod completions;
pub mod doctor;
pub mod enqueue;
mod follow;
pub mod held;
pub mod job;
pub mod maintain;
pub mod man;
pub mod migrate;
pub mod queue;
pub mod refused;
pub mod schedule;
pub mod sql;
pub mod stats;
pub mod torture;
pub mod work;
