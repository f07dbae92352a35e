//! One module per operation or family of operations: the order in which its statements run, and what its arguments must
//! be. Refuses to know threads and transactions: each function works inside the transaction that it is given.

pub(crate) mod audit;
pub(crate) mod claim;
pub(crate) mod end_attempt;
pub(crate) mod enqueue;
pub(crate) mod heartbeat;
pub(crate) mod listings;
pub(crate) mod operate;
pub(crate) mod prune;
pub(crate) mod queues;
pub(crate) mod reap;
pub(crate) mod schedules;
pub(crate) mod settle;
pub(crate) mod stats;
pub(crate) mod unhandled;
pub(crate) mod wait;
