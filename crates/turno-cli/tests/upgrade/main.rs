//! An upgrade while everybody works: the real `turno` is the old program; this test program, started again with another
//! schema in hand, is the new one. Migrations are killed by SIGKILL at every step. SQLite always; PostgreSQL, MariaDB and
//! MySQL where `TURNO_TEST_{POSTGRES,MARIADB,MYSQL}_URL` names a server, and elsewhere reported as ignored.

#[path = "../common/mod.rs"]
mod common;

mod ahead;
mod cases;
mod newer;
mod rig;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use crate::rig::{Engine, Rig};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    match words[..] {
        [newer::MIGRATE, url] => return newer::migrate(url),
        [newer::WORK, url, file] => return newer::work(url, file),
        _ => {}
    }
    let mut trials = Vec::new();
    for engine in Engine::ALL {
        for (name, case) in cases::of(engine) {
            let run = move || {
                case(&Rig::new(engine));
                Ok(())
            };
            let trial = Trial::test(format!("{}::{name}", engine.name()), run);
            trials.push(trial.with_ignored_flag(engine.server().is_none()));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
