//! The conformance suite on a MariaDB server, in an installation that this run makes for itself.

mod rig;

use std::sync::Arc;

use turno_conformance::Rig;

fn main() -> std::process::ExitCode {
    turno_conformance::main("mariadb", || async {
        Arc::new(rig::MysqlRig::on(&rig::mariadb_url()).await) as Arc<dyn Rig>
    })
}
