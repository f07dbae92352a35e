//! What only PostgreSQL has: roles, plans, isolation levels, notifications, drivers' own transactions, migrations.

mod rig;

#[path = "server/doctor.rs"]
mod doctor;
#[path = "server/doorbell.rs"]
mod doorbell;
#[path = "server/explain.rs"]
mod explain;
#[path = "server/isolation.rs"]
mod isolation;
#[path = "server/migrate.rs"]
mod migrate;
#[path = "server/plans.rs"]
mod plans;
#[path = "server/roles.rs"]
mod roles;
#[path = "server/tls.rs"]
mod tls;
#[path = "server/transactions.rs"]
mod transactions;
