//! `turno serve` and `turno top` with the real binary: every case on SQLite, and on PostgreSQL and MariaDB where a
//! server is named (`TURNO_TEST_POSTGRES_URL`, `TURNO_TEST_MARIADB_URL`); elsewhere it is reported as ignored.

#[path = "../common/mod.rs"]
mod common;

mod api;
mod connections;
mod documents;
mod metrics;
mod pages;
mod refusals;
mod rig;
mod top;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use crate::rig::{Engine, Rig};

/// A case: its name and what it does with a database of its own.
pub type Case = (&'static str, fn(&Rig));

/// Lists cases by their names.
macro_rules! cases {
    ($($name:ident),+ $(,)?) => {
        pub fn cases() -> Vec<crate::Case> {
            vec![$((stringify!($name), $name)),+]
        }
    };
}
pub(crate) use cases;

fn main() -> ExitCode {
    let mut trials = Vec::new();
    let parts = [
        api::cases(),
        connections::cases(),
        refusals::cases(),
        metrics::cases(),
        pages::cases(),
        top::cases(),
    ];
    for (name, case) in parts.concat() {
        for engine in Engine::ALL {
            let run = move || {
                case(&Rig::new(engine));
                Ok(())
            };
            let trial = Trial::test(format!("{}::{name}", engine.name()), run);
            trials.push(trial.with_ignored_flag(engine.server().is_none()));
        }
    }
    trials.push(Trial::test("every_metric_is_described_and_only_these_are_used", || {
        documents::every_metric_is_described_and_only_these_are_used();
        Ok(())
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
