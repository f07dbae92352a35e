//! The conformance suite: what `docs/contract.md` promises, as cases that every backend runs on a real database.
//!
//! A backend wires it in with a test of its own (`tests/conformance.rs`, `harness = false`):
//!
//! ```ignore
//! fn main() -> std::process::ExitCode {
//!     turno_conformance::main("sqlite", || async { Arc::new(SqliteRig::new().await) as Arc<dyn Rig> })
//! }
//! ```
//!
//! One module of `cases` per operation; each case says in its comment which rules it guards. The suite refuses to
//! sleep, to mock a database, to know an engine's SQL, and to skip anything without saying so.

mod cases;
mod kit;
mod rig;

use std::future::Future;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tokio::runtime::Runtime;
use tokio::sync::RwLock;

pub use cases::{Case, Needs, Running, all};
pub use kit::Kit;
pub use rig::{Rig, RigTransaction};

/// Runs the suite as a test binary does: reads the command line, runs the cases on one rig, prints, and answers the
/// exit code. The rig is made at the first case that runs, so that listing the cases starts no database.
pub fn main<Make, Made>(engine: &str, make_rig: Make) -> ExitCode
where
    Make: FnOnce() -> Made + Send + 'static,
    Made: Future<Output = Arc<dyn Rig>> + Send + 'static,
{
    let arguments = Arguments::from_args();
    let suite = Arc::new(Suite::new(make_rig));
    let trials = all().into_iter().map(|case| trial(engine, &suite, case)).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

type BoxedRig = std::pin::Pin<Box<dyn Future<Output = Arc<dyn Rig>> + Send>>;

/// What the cases of one run share.
struct Suite {
    runtime: Runtime,
    make_rig: std::sync::Mutex<Option<Box<dyn FnOnce() -> BoxedRig + Send>>>,
    rig: OnceLock<Arc<dyn Rig>>,
    /// Held for reading by cases that keep to their own queues, for writing by cases whose calls reach every queue
    /// (reap, prune), or who need that nobody makes such calls.
    alone: RwLock<()>,
}

impl Suite {
    fn new<Make, Made>(make_rig: Make) -> Self
    where
        Make: FnOnce() -> Made + Send + 'static,
        Made: Future<Output = Arc<dyn Rig>> + Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(4)
            .enable_all()
            .build()
            .expect("a runtime for the suite");
        let make_rig: Box<dyn FnOnce() -> BoxedRig + Send> = Box::new(move || Box::pin(make_rig()));
        Suite {
            runtime,
            make_rig: std::sync::Mutex::new(Some(make_rig)),
            rig: OnceLock::new(),
            alone: RwLock::new(()),
        }
    }

    /// The one rig of this run; a rig that could not be made fails every case.
    fn rig(&self) -> Arc<dyn Rig> {
        self.rig
            .get_or_init(|| {
                let make = self.make_rig.lock().expect("the rig could not be made").take();
                self.runtime.block_on(make.expect("the rig could not be made")())
            })
            .clone()
    }

    fn run(&self, case: &Case) -> Result<Completion, Failed> {
        let rig = self.rig();
        if let Some(reason) = case.needs.not_applicable(rig.as_ref()) {
            return Ok(Completion::ignored_with(reason));
        }
        let kit = Kit::new(rig, &case.name());
        self.runtime.block_on(async {
            if case.needs.is_alone() {
                let _alone = self.alone.write().await;
                (case.run)(kit).await;
            } else {
                let _together = self.alone.read().await;
                (case.run)(kit).await;
            }
        });
        Ok(Completion::Completed)
    }
}

fn trial(engine: &str, suite: &Arc<Suite>, case: Case) -> Trial {
    let suite = suite.clone();
    Trial::ignorable_test(case.name(), move || suite.run(&case)).with_kind(engine)
}
