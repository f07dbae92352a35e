//! The conformance suite on a SQL Server, if there is one, in an installation that this run makes for itself.

mod rig;

use std::process::ExitCode;
use std::sync::Arc;

use turno_conformance::Rig;

fn main() -> ExitCode {
    let Some(url) = rig::url() else {
        println!("SQL Server: NOT RUN (TURNO_TEST_SQLSERVER_URL is not set)");
        return ExitCode::SUCCESS;
    };
    turno_conformance::main("sqlserver", || async move {
        Arc::new(rig::SqlServerRig::on(&url).await) as Arc<dyn Rig>
    })
}
