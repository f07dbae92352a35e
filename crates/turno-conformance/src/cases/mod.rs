//! The cases, one module per operation, each named by the sentence that it holds true.
//!
//! A case gets a [`Kit`] whose queue nobody else uses, and panics if the backend breaks the rule. It never sleeps, and
//! never looks at rows of other queues.

use std::future::Future;
use std::pin::Pin;

use crate::{Kit, Rig};

mod attempts;
mod audit;
mod cancel;
mod claim;
mod complete;
mod doctor;
mod enqueue;
mod fail;
mod find;
mod forget;
mod heartbeat;
mod held;
mod job;
mod jobs;
mod migrate;
mod pause;
mod promote;
mod prune;
mod queue_list;
mod queue_set;
mod reap;
mod refused;
mod refused_record;
mod release;
mod reprioritize;
mod retry;
mod schedule;
mod stats;
mod unhandled;
mod wait;

/// What a case needs from the database or from the other cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: it keeps to its own queues and runs beside the others.
    Nothing,
    /// No other case beside it: it calls what reaches every queue (reap, prune), or needs that nobody does (a claim
    /// that comes back short reaps, too).
    Alone,
    /// Transactions that hold single rows.
    RowLocks,
    /// Both of them.
    RowLocksAlone,
    /// Operations that are routines which a caller's transaction can call.
    Routines,
}

impl Needs {
    /// Why a case with this need cannot run on this rig; `None` if it can.
    pub fn not_applicable(self, rig: &dyn Rig) -> Option<&'static str> {
        match self {
            Needs::RowLocks | Needs::RowLocksAlone if !rig.row_locks() => Some(rig.why_no_row_locks()),
            Needs::Routines if !rig.routines() => Some("not applicable: no routines to call"),
            _ => None,
        }
    }

    /// Whether no other case may run beside it.
    pub fn is_alone(self) -> bool {
        matches!(self, Needs::Alone | Needs::RowLocksAlone)
    }
}

/// The future of a running case.
pub type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One case.
pub struct Case {
    module: &'static str,
    sentence: &'static str,
    /// What it needs.
    pub needs: Needs,
    /// Runs it; a broken rule is a panic.
    pub run: fn(Kit) -> Running,
}

impl Case {
    /// `<operation>::<sentence_in_snake_case>`.
    pub fn name(&self) -> String {
        let operation = self.module.split("::").nth(2).unwrap_or(self.module);
        format!("{operation}::{}", self.sentence)
    }
}

/// Lists the cases of a module by what they need; what is written but not listed is dead code, which does not compile.
macro_rules! cases {
    ($($needs:ident: [$($case:ident),* $(,)?]),* $(,)?) => {
        /// The cases of this module.
        pub(in crate::cases) fn cases() -> Vec<crate::Case> {
            vec![$($(crate::Case::new(
                module_path!(),
                stringify!($case),
                crate::Needs::$needs,
                |kit| Box::pin($case(kit)),
            )),*),*]
        }
    };
}
use cases;

impl Case {
    fn new(module: &'static str, sentence: &'static str, needs: Needs, run: fn(Kit) -> Running) -> Self {
        Case { module, sentence, needs, run }
    }
}

/// All cases, in the order of a job's life; the audit comes last, to see what the others left behind.
pub fn all() -> Vec<Case> {
    let of_modules = [
        migrate::cases(),
        enqueue::all(),
        promote::cases(),
        claim::all(),
        held::cases(),
        heartbeat::cases(),
        complete::all(),
        fail::all(),
        release::cases(),
        refused_record::cases(),
        reap::cases(),
        cancel::cases(),
        retry::cases(),
        reprioritize::cases(),
        pause::cases(),
        queue_set::cases(),
        queue_list::cases(),
        schedule::all(),
        prune::cases(),
        forget::cases(),
        stats::cases(),
        job::cases(),
        jobs::cases(),
        find::cases(),
        attempts::cases(),
        refused::cases(),
        wait::cases(),
        unhandled::cases(),
        doctor::cases(),
        audit::cases(),
    ];
    of_modules.into_iter().flatten().collect()
}
