//! The conformance suite on a PostgreSQL server, in a database that this run makes for itself.

mod rig;

use std::sync::Arc;

use turno_conformance::Rig;

fn main() -> std::process::ExitCode {
    turno_conformance::main("postgres", || async { Arc::new(rig::PostgresRig::new().await) as Arc<dyn Rig> })
}
