//! What only MySQL and MariaDB have: statements that commit by themselves, gap locks, deadlocks, roles, migrations without a
//! transaction. Every test runs on each server that there is.

mod rig;

#[path = "server/deadlocks.rs"]
mod deadlocks;
#[path = "server/doctor.rs"]
mod doctor;
#[path = "server/isolation.rs"]
mod isolation;
#[path = "server/migrate.rs"]
mod migrate;
#[path = "server/plans.rs"]
mod plans;
#[path = "server/roles.rs"]
mod roles;
#[path = "server/sqlx.rs"]
mod sqlx_transactions;
#[path = "server/tls.rs"]
mod tls;
#[path = "server/transactions.rs"]
mod transactions;
