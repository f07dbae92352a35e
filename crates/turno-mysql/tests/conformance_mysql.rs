//! The conformance suite on a MySQL server, if there is one.

mod rig;

use std::process::ExitCode;
use std::sync::Arc;

use turno_conformance::Rig;

fn main() -> ExitCode {
    let Some(url) = rig::mysql_url() else {
        println!("MySQL: not run (TURNO_TEST_MYSQL_URL is not set)");
        return ExitCode::SUCCESS;
    };
    turno_conformance::main(
        "mysql",
        || async move { Arc::new(rig::MysqlRig::on(&url).await) as Arc<dyn Rig> },
    )
}
