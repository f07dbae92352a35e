//! The worker against real databases: every case on SQLite, and on PostgreSQL where a server is named. A case is a
//! sentence about the runtime; DESIGN section 5 and the known faults it guards are named above it.

mod cases;
mod kit;
mod proxy;
mod rig;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use libtest_mimic::{Arguments, Failed, Trial};
use turno::Engine;

use crate::rig::{POSTGRES_URL, Rig};

/// What a case does.
pub type Run = fn(Arc<Rig>) -> BoxFuture<'static, ()>;

/// A case: its name and what it does with a rig of its own.
pub struct Case {
    /// A sentence.
    pub name: &'static str,
    /// The case itself.
    pub run: Run,
    /// Only on this engine.
    pub only: Option<Engine>,
}

fn main() -> std::process::ExitCode {
    if let Some(code) = cases::child::main() {
        return code;
    }
    if std::env::var_os("RUST_LOG").is_some() {
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    }
    let arguments = Arguments::from_args();
    let has_postgres = std::env::var_os(POSTGRES_URL).is_some();
    if !has_postgres {
        println!("PostgreSQL: not run, since {POSTGRES_URL} is not set (scripts/test sets it)");
    }
    let mut trials = Vec::new();
    for case in cases::all() {
        for engine in [Engine::Sqlite, Engine::Postgres] {
            if case.only.is_some_and(|only| only != engine) {
                continue;
            }
            let run = case.run;
            let trial =
                Trial::test(format!("{}::{}", engine.as_str(), case.name), move || run_case(engine, run));
            trials.push(trial.with_ignored_flag(engine == Engine::Postgres && !has_postgres));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn run_case(engine: Engine, run: Run) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.block_on(async move {
        let rig = Arc::new(Rig::new(engine).await);
        let name = rig.name.clone();
        let result = tokio::spawn(run(rig)).await;
        Rig::remove(engine, &name).await;
        result
    });
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    match result {
        Ok(()) => Ok(()),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(error) => Err(error.into()),
    }
}
