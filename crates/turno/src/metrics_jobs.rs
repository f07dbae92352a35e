//! What hooks tell about jobs and calls, as counters and histograms. It refuses labels without a bound: a kind that no
//! handler was registered for is counted as `other`.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use turno_contract::{ClaimedJob, Proof, SettledStatus, State, Verb};

use crate::hook::{Event, Hook};

/// Most kinds that get a label of their own.
const KINDS_MAX: usize = 200;
/// The label of every other kind.
const OTHER: &str = "other";
/// From how many open jobs on the list is looked through for those that nothing more will be heard of.
const SWEEP_FROM: usize = 1024;
/// How long after its time a job is kept in that list: longer than its verdict can be on its way.
const KEEP_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Upper bounds for the life of a job, in seconds.
const JOB_BUCKETS: [f64; 16] = [
    0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 28_800.0, 86_400.0,
];
/// Upper bounds for one call to the database, in seconds.
const CALL_BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0];

const OUTCOMES: [&str; 7] = ["succeeded", "retried", "dead", "released", "cancelled", "refused", "gone"];
const OPERATIONS: [&str; 11] = [
    "claim",
    "held",
    "heartbeat",
    "wait",
    "complete",
    "fail",
    "release",
    "reap",
    "promote",
    "prune",
    "schedule",
];
const TRANSIENT: [&str; 2] = ["busy", "unavailable"];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfOutcome {
    kind: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfError {
    operation: &'static str,
    error: &'static str,
}

type Times = Family<OfKind, Histogram, fn() -> Histogram>;

/// A job between its claim and the answer to its verdict.
#[derive(Debug)]
struct Open {
    kind: String,
    /// From due to claimed, both by the database's clock.
    waited: Duration,
    claimed_at: Instant,
    max_run: Duration,
    started: bool,
}

/// The jobs that more will be heard of.
#[derive(Debug, Default)]
struct OpenJobs {
    by_proof: HashMap<Proof, Open>,
    /// At this size it is looked through again.
    sweep_at: usize,
}

/// Everything that workers tell.
pub(crate) struct Jobs {
    kinds: RwLock<BTreeSet<String>>,
    open: Mutex<OpenJobs>,
    claimed: Family<OfKind, Counter>,
    started: Family<OfKind, Counter>,
    ended: Family<OfOutcome, Counter>,
    errors: Family<OfError, Counter>,
    to_start: Times,
    to_finish: Times,
    run: Times,
    claim: Histogram,
    heartbeat: Histogram,
    heartbeat_delay: Histogram,
}

impl Default for Jobs {
    fn default() -> Self {
        let times = || Times::new_with_constructor(|| Histogram::new(JOB_BUCKETS));
        let jobs = Jobs {
            kinds: RwLock::default(),
            open: Mutex::default(),
            claimed: Family::default(),
            started: Family::default(),
            ended: Family::default(),
            errors: Family::default(),
            to_start: times(),
            to_finish: times(),
            run: times(),
            claim: Histogram::new(CALL_BUCKETS),
            heartbeat: Histogram::new(CALL_BUCKETS),
            heartbeat_delay: Histogram::new(CALL_BUCKETS),
        };
        jobs.seed(OTHER);
        for operation in OPERATIONS {
            for error in TRANSIENT {
                let _ = jobs.errors.get_or_create(&OfError { operation, error });
            }
        }
        jobs
    }
}

impl Jobs {
    /// Gives a kind labels of its own, which are there before its first job.
    pub(crate) fn know(&self, kind: &str) {
        let mut kinds = self.kinds.write().unwrap_or_else(PoisonError::into_inner);
        if kinds.len() < KINDS_MAX && kinds.insert(kind.to_owned()) {
            self.seed(kind);
        }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let r = registry;
        r.register("turno_claimed_jobs", "Jobs that claims returned", self.claimed.clone());
        r.register("turno_attempts_started", "Handlers that were started", self.started.clone());
        r.register("turno_attempts_ended", "Attempts by what became of them", self.ended.clone());
        r.register("turno_errors", "Calls to the database that failed", self.errors.clone());
        r.register("turno_start_seconds", "From due to the handler's start", self.to_start.clone());
        r.register(
            "turno_finish_seconds",
            "From due to the accepted end, of attempts that ended the job",
            self.to_finish.clone(),
        );
        r.register("turno_run_seconds", "How long handlers ran", self.run.clone());
        r.register("turno_claim_seconds", "How long claims took", self.claim.clone());
        r.register("turno_heartbeat_seconds", "How long heartbeats took", self.heartbeat.clone());
        r.register(
            "turno_heartbeat_delay_seconds",
            "How long after they were due heartbeats were answered",
            self.heartbeat_delay.clone(),
        );
    }

    fn seed(&self, kind: &str) {
        let of_kind = OfKind { kind: kind.to_owned() };
        let _ = (self.claimed.get_or_create(&of_kind), self.started.get_or_create(&of_kind));
        for times in [&self.to_start, &self.to_finish, &self.run] {
            let _ = times.get_or_create(&of_kind);
        }
        for outcome in OUTCOMES {
            let _ = self.ended.get_or_create(&OfOutcome { kind: kind.to_owned(), outcome });
        }
    }

    fn label(&self, kind: &str) -> String {
        let kinds = self.kinds.read().unwrap_or_else(PoisonError::into_inner);
        if kinds.contains(kind) { kind.to_owned() } else { OTHER.to_owned() }
    }

    fn open(&self) -> MutexGuard<'_, OpenJobs> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on_claimed(&self, jobs: &[ClaimedJob], at: Instant) {
        let mut open = self.open();
        if open.by_proof.len() >= open.sweep_at.max(SWEEP_FROM) {
            // Verdicts that were given up have no event: their jobs are forgotten by age.
            open.by_proof.retain(|_, job| at < job.claimed_at + job.max_run + KEEP_AFTER);
            open.sweep_at = open.by_proof.len() * 2;
        }
        for job in jobs {
            let kind = self.label(&job.kind);
            self.claimed.get_or_create(&OfKind { kind: kind.clone() }).inc();
            // Negative only if the job was released to a later time, or the clocks of a failover differ.
            let waited = Duration::try_from(job.claimed_at - job.run_at).unwrap_or_default();
            let max_run = job.max_run;
            open.by_proof.insert(job.proof, Open { kind, waited, claimed_at: at, max_run, started: false });
        }
    }

    fn on_started(&self, proof: &Proof, at: Instant) {
        let mut open = self.open();
        let Some(job) = open.by_proof.get_mut(proof) else { return };
        job.started = true;
        let of_kind = OfKind { kind: job.kind.clone() };
        self.started.get_or_create(&of_kind).inc();
        self.to_start.get_or_create(&of_kind).observe(job.since_due(at));
    }

    fn on_ended(&self, proof: &Proof, ran: Duration) {
        let Some(kind) = self.open().by_proof.get(proof).map(|job| job.kind.clone()) else { return };
        self.run.get_or_create(&OfKind { kind }).observe(ran.as_secs_f64());
    }

    fn on_settled(&self, proof: &Proof, outcome: &'static str, at: Instant) {
        let job = self.open().by_proof.remove(proof);
        let kind = job.as_ref().map_or_else(|| OTHER.to_owned(), |job| job.kind.clone());
        if let Some(job) = job
            && matches!(outcome, "succeeded" | "dead" | "cancelled")
        {
            self.to_finish.get_or_create(&OfKind { kind: kind.clone() }).observe(job.since_due(at));
        }
        self.ended.get_or_create(&OfOutcome { kind, outcome }).inc();
    }

    fn on_lease_lost(&self, proof: &Proof) {
        let mut open = self.open();
        // One that has started may still send a late result, which is counted as refused.
        if open.by_proof.get(proof).is_some_and(|job| !job.started) {
            open.by_proof.remove(proof);
        }
    }
}

impl Open {
    fn since_due(&self, at: Instant) -> f64 {
        (self.waited + at.saturating_duration_since(self.claimed_at)).as_secs_f64()
    }
}

impl Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jobs").field("open", &self.open().by_proof.len()).finish_non_exhaustive()
    }
}

/// The hook that feeds them.
pub(crate) struct Recorder(pub(crate) Arc<Jobs>);

impl Hook for Recorder {
    fn event(&self, at: Instant, event: &Event<'_>) {
        let jobs = &self.0;
        match event {
            Event::Claimed { jobs: claimed, took } => {
                jobs.claim.observe(took.as_secs_f64());
                jobs.on_claimed(claimed, at);
            }
            Event::ClaimEmpty { took, .. } => jobs.claim.observe(took.as_secs_f64()),
            Event::Started { proof, .. } => jobs.on_started(proof, at),
            Event::Ended { proof, ran } => jobs.on_ended(proof, *ran),
            Event::Settled { proof, verb, status, state, .. } => {
                jobs.on_settled(proof, outcome(*verb, *status, *state), at);
            }
            Event::LeaseLost { proof } => jobs.on_lease_lost(proof),
            Event::Heartbeat { took, late, .. } => {
                jobs.heartbeat.observe(took.as_secs_f64());
                jobs.heartbeat_delay.observe((*late + *took).as_secs_f64());
            }
            Event::TransientError { operation, error } => {
                let error = error.kind().as_str();
                jobs.errors.get_or_create(&OfError { operation, error }).inc();
            }
            Event::Reaped { .. } => {}
        }
    }
}

fn outcome(verb: Verb, status: SettledStatus, state: Option<State>) -> &'static str {
    match (status, state, verb) {
        (SettledStatus::Refused, ..) => "refused",
        (SettledStatus::Gone, ..) => "gone",
        (_, Some(State::Dead), _) => "dead",
        (_, Some(State::Cancelled), _) => "cancelled",
        (_, _, Verb::Complete) => "succeeded",
        (_, _, Verb::Fail) => "retried",
        _ => "released",
    }
}
