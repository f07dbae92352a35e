//! The conformance suite on a second, newer PostgreSQL server, if there is one.

mod rig;

use std::process::ExitCode;
use std::sync::Arc;

use turno_conformance::Rig;

fn main() -> ExitCode {
    let Some(url) = rig::newer_server_url() else {
        println!("newer PostgreSQL: not run (TURNO_TEST_POSTGRES18_URL is not set)");
        return ExitCode::SUCCESS;
    };
    turno_conformance::main("newer postgres", || async move {
        Arc::new(rig::PostgresRig::on(&url).await) as Arc<dyn Rig>
    })
}
