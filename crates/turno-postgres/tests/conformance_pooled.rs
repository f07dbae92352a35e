//! The conformance suite through a pooler in transaction mode with two server connections, if there is one (known fault B55).

mod rig;

use std::process::ExitCode;
use std::sync::Arc;

use turno_conformance::Rig;

fn main() -> ExitCode {
    let Some(pooler) = std::env::var("TURNO_TEST_PGBOUNCER_URL").ok().filter(|url| !url.is_empty()) else {
        println!("PostgreSQL through pgbouncer: not run (TURNO_TEST_PGBOUNCER_URL is not set)");
        return ExitCode::SUCCESS;
    };
    turno_conformance::main("pooled postgres", || async move {
        Arc::new(rig::PostgresRig::through(&rig::server_url(), &pooler).await) as Arc<dyn Rig>
    })
}
