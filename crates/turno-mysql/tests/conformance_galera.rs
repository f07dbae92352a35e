//! The conformance suite on a Galera cluster, with the calls spread over all of its nodes, in an installation that this run makes for
//! itself. `TURNO_TEST_GALERA_URLS` has the URLs of the nodes, with spaces between them, as `scripts/galera-private` prints them. Reads
//! have to see what other nodes have committed: start the nodes with `TURNO_TEST_GALERA_OPTIONS=--wsrep-sync-wait=15`.

mod rig;

use std::sync::Arc;

use turno_conformance::Rig;

fn main() -> std::process::ExitCode {
    let urls = std::env::var("TURNO_TEST_GALERA_URLS").unwrap_or_default();
    let urls: Vec<String> = urls.split_whitespace().map(str::to_owned).collect();
    if urls.is_empty() {
        println!("Galera: not run (TURNO_TEST_GALERA_URLS names no nodes)");
        return std::process::ExitCode::SUCCESS;
    }
    turno_conformance::main("galera", || async move {
        Arc::new(rig::MysqlRig::on_nodes(&urls).await) as Arc<dyn Rig>
    })
}
