//! What the parts of a run share: what was enqueued, what workers were told, what was done to them, and what was found.
//! It refuses to do anything by itself.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use time::OffsetDateTime;
use tokio::sync::watch;
use turno::JobId;

use crate::effects::Sinks;
use crate::engine::Database;
use crate::memory::{EndedJobs, Strays, Times};
use crate::options::{Fault, Options};
use crate::story::{Expiry, Struck, Told, Violation};

/// How often the time of the run is counted, and how much of it counts at most: more than a busy machine lets pass.
const TICK: Duration = Duration::from_millis(20);
const TICK_MAX: Duration = Duration::from_millis(300);
/// More of them say nothing new.
const VIOLATIONS_MAX: usize = 50;

/// What was done to the workers of one label, or to all.
#[derive(Debug, Clone, Default)]
pub(crate) struct Excuses(Vec<(OffsetDateTime, OffsetDateTime)>);

impl Excuses {
    /// Overlapping ones are one: a server that is slow for a minute is one excuse and not hundreds.
    fn add(&mut self, since: OffsetDateTime, until: OffsetDateTime) {
        match self.0.last_mut() {
            Some(last) if last.0 <= since && since <= last.1 => last.1 = last.1.max(until),
            _ => self.0.push((since, until)),
        }
    }

    fn cover(&self, from: OffsetDateTime, to: OffsetDateTime) -> bool {
        self.0.iter().any(|(since, until)| *since <= to && *until >= from)
    }
}

/// An attempt that stood still and then had a result to send.
#[derive(Debug, Clone)]
pub(crate) struct Late {
    pub(crate) job: i64,
    pub(crate) attempt: i64,
    pub(crate) worker: String,
    pub(crate) since: Instant,
}

/// What is known of the jobs.
#[derive(Debug, Default)]
pub(crate) struct Model {
    /// Jobs that have not ended, as far as anybody has looked.
    pub(crate) open: BTreeSet<JobId>,
    pub(crate) ended: EndedJobs,
    pub(crate) strays: Strays,
    pub(crate) enqueued: u64,
    /// Enqueues whose answer was lost, and which were repeated until it came.
    pub(crate) lost_answers: u64,
    pub(crate) cancel_asked: HashSet<JobId>,
    pub(crate) told: HashMap<i64, Vec<Told>>,
    /// Jobs about which somebody was told something after their story had been checked.
    pub(crate) told_late: HashSet<JobId>,
    pub(crate) struck: HashMap<i64, Vec<Struck>>,
    /// Attempts that stood still and returned: if their lease was reaped meanwhile, their result has to be refused.
    pub(crate) late: Vec<Late>,
    /// Attempts whose row was locked on purpose: theirs are the only leases that may end by it.
    pub(crate) held: HashSet<(i64, i64)>,
}

impl Model {
    /// Jobs that are mentioned, but neither open nor kept.
    pub(crate) fn mentioned(&self, in_effects: impl Iterator<Item = i64>) -> HashSet<JobId> {
        let numbers = self.told.keys().chain(self.struck.keys()).copied();
        let numbers = numbers.chain(self.held.iter().map(|(job, _)| *job)).chain(in_effects);
        let jobs = numbers.map(JobId).chain(self.cancel_asked.iter().copied());
        jobs.filter(|job| !self.open.contains(job) && !self.ended.contains(*job)).collect()
    }

    /// Whether the late result has been refused.
    pub(crate) fn was_refused(&self, late: &Late) -> bool {
        Model::has_refused(&self.told, late)
    }

    fn has_refused(told: &HashMap<i64, Vec<Told>>, late: &Late) -> bool {
        use crate::protocol::Answer;
        told.get(&late.job).is_some_and(|told| {
            let mut of_it = told.iter().filter(|told| told.attempt == late.attempt && !told.rogue);
            of_it.any(|told| matches!(told.status, Answer::Refused | Answer::Gone))
        })
    }

    /// Forgets a job but for the sum of what has ended.
    pub(crate) fn forget(&mut self, job: JobId) {
        self.ended.set_aside(job);
        // A refusal that came a moment ago must not be missed later.
        self.late.retain(|late| late.job != job.0 || !Model::has_refused(&self.told, late));
        self.told.remove(&job.0);
        self.told_late.remove(&job);
        self.struck.remove(&job.0);
        self.cancel_asked.remove(&job);
        self.held.retain(|(held, _)| *held != job.0);
    }
}

/// What the report counts.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) injected: BTreeMap<(Fault, String), u64>,
    pub(crate) not_reached: BTreeMap<(Fault, String), u64>,
    pub(crate) refused: u64,
    pub(crate) already: u64,
    pub(crate) forged: u64,
    pub(crate) expired: u64,
    pub(crate) attempts: u64,
    pub(crate) recoveries: Times,
    /// Of a worker, and of this process.
    pub(crate) memory_max_kib: u64,
    pub(crate) own_memory_max_kib: u64,
    pub(crate) jobs_kept_max: usize,
    pub(crate) transient: u64,
    pub(crate) workers_started: u64,
    pub(crate) wrong_clock_jobs: u64,
}

/// One run.
pub(crate) struct Run {
    pub(crate) options: Options,
    pub(crate) database: Database,
    pub(crate) queue: String,
    /// How far the database's clock is ahead of this process's.
    pub(crate) clock_offset: time::Duration,
    /// How long this process has been running, in microseconds: while the machine stands still, nothing is late.
    active_us: AtomicU64,
    /// Set when no more faults shall come.
    pub(crate) calm: watch::Sender<bool>,
    /// Set when everything shall end.
    pub(crate) over: watch::Sender<bool>,
    /// A transaction is held open on purpose, so slowness of others is no excuse.
    pub(crate) holding: Mutex<u32>,
    model: Mutex<Model>,
    tally: Mutex<Tally>,
    sinks: Mutex<Sinks>,
    excuses: Mutex<HashMap<String, Excuses>>,
    violations: Mutex<Vec<Violation>>,
    failed: AtomicBool,
    /// Labels of workers that were ended before the end of the run, and when.
    ended: Mutex<HashMap<String, OffsetDateTime>>,
}

/// The label under which everybody is excused.
pub(crate) const EVERYBODY: &str = "";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts the time of the run for as long as there is one.
async fn keep_time(run: Weak<Run>) {
    let mut before = Instant::now();
    loop {
        tokio::time::sleep(TICK).await;
        let (Some(run), passed) = (run.upgrade(), before.elapsed()) else { return };
        before += passed;
        run.active_us.fetch_add(passed.min(TICK_MAX).as_micros() as u64, Ordering::SeqCst);
    }
}

impl Run {
    pub(crate) fn new(
        options: Options,
        database: Database,
        clock_offset: time::Duration,
        sinks: Sinks,
    ) -> Arc<Self> {
        let run = Arc::new(Run {
            queue: format!("torture-{}-{}-{:x}", options.seed, std::process::id(), fastrand::u32(..)),
            options,
            database,
            clock_offset,
            active_us: AtomicU64::new(0),
            calm: watch::Sender::new(false),
            over: watch::Sender::new(false),
            holding: Mutex::default(),
            model: Mutex::default(),
            tally: Mutex::default(),
            sinks: Mutex::new(sinks),
            excuses: Mutex::default(),
            violations: Mutex::default(),
            failed: AtomicBool::new(false),
            ended: Mutex::default(),
        });
        tokio::spawn(keep_time(Arc::downgrade(&run)));
        run
    }

    pub(crate) fn model(&self) -> MutexGuard<'_, Model> {
        lock(&self.model)
    }

    pub(crate) fn tally(&self) -> MutexGuard<'_, Tally> {
        lock(&self.tally)
    }

    pub(crate) fn sinks(&self) -> MutexGuard<'_, Sinks> {
        lock(&self.sinks)
    }

    pub(crate) fn violations(&self) -> Vec<Violation> {
        lock(&self.violations).clone()
    }

    /// Now, on the database's clock, as well as it can be known from here.
    pub(crate) fn now(&self) -> OffsetDateTime {
        OffsetDateTime::from(SystemTime::now()) + self.clock_offset
    }

    pub(crate) fn is_calm(&self) -> bool {
        *self.calm.borrow()
    }

    pub(crate) fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    /// How long the run has lasted, without the time in which the machine stood still. Every limit is measured by it.
    pub(crate) fn active(&self) -> Duration {
        Duration::from_micros(self.active_us.load(Ordering::SeqCst))
    }

    /// Comes back when the run has lasted for so long.
    pub(crate) async fn wait_until(&self, active: Duration) {
        while self.active() < active {
            tokio::time::sleep(TICK).await;
        }
    }

    /// The same, or when no more faults shall come.
    pub(crate) async fn wait_until_or_calm(&self, active: Duration) {
        let mut calm = self.calm.subscribe();
        tokio::select! {
            () = self.wait_until(active) => {}
            // The sender lives in this very struct.
            _ = calm.wait_for(|calm| *calm) => {}
        }
    }

    /// Comes back after this long, or when `over` is set.
    pub(crate) async fn pause(&self, time: Duration) {
        let mut over = self.over.subscribe();
        // The sender lives in this very struct.
        let _ = tokio::time::timeout(time, over.wait_for(|over| *over)).await;
    }

    /// Comes back after this long, or when no more faults shall come.
    pub(crate) async fn pause_until_calm(&self, time: Duration) {
        let mut calm = self.calm.subscribe();
        let _ = tokio::time::timeout(time, calm.wait_for(|calm| *calm)).await;
    }

    /// Notes that something is not as it must be.
    pub(crate) fn violation(&self, check: &'static str, text: impl Into<String>, story: Vec<String>) {
        self.failed.store(true, Ordering::SeqCst);
        let mut violations = lock(&self.violations);
        if violations.len() < VIOLATIONS_MAX {
            violations.push(Violation { check, text: text.into(), story });
        }
        drop(violations);
        if self.options.stop_early {
            self.calm.send_replace(true);
            self.over.send_replace(true);
        }
    }

    /// Notes that a worker of this label has ended.
    pub(crate) fn note_ended(&self, worker: &str) {
        lock(&self.ended).insert(worker.to_owned(), self.now());
    }

    /// Whether the worker has ended, with whatever it had not told yet.
    pub(crate) fn was_ended(&self, worker: &str) -> bool {
        lock(&self.ended).contains_key(worker)
    }

    /// Forgets excuses that were over, and workers that had ended, before every attempt that is still looked at.
    pub(crate) fn forget_before(&self, horizon: OffsetDateTime) {
        let mut ended = lock(&self.ended);
        lock(&self.excuses).retain(|worker, excuses| {
            excuses.0.retain(|(_, until)| *until >= horizon);
            !excuses.0.is_empty() && ended.get(worker).is_none_or(|at| *at >= horizon)
        });
        ended.retain(|_, at| *at >= horizon);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    /// From now on until `for_` from now, leases of this worker may end: something was done to it.
    pub(crate) fn excuse(&self, worker: &str, before: Duration, for_: Option<Duration>) {
        let now = self.now();
        let until = for_.map_or(now + time::Duration::days(1), |for_| now + for_);
        lock(&self.excuses).entry(worker.to_owned()).or_default().add(now - before, until);
    }

    /// The same for what a worker says of itself. A transaction that is held open on purpose must not slow anybody down
    /// (rule H2), so while there is one, slowness is no excuse; the canary tells if the server itself is slow.
    pub(crate) fn excuse_unless_held(&self, worker: &str, before: Duration) {
        if *lock(&self.holding) == 0 {
            self.excuse(worker, before, Some(self.options.lease));
        }
    }

    /// Whether something was done to this worker, or to all, while it held the lease.
    pub(crate) fn is_excused(&self, expiry: &Expiry) -> bool {
        let excuses = lock(&self.excuses);
        [expiry.worker.as_str(), EVERYBODY]
            .into_iter()
            .filter_map(|label| excuses.get(label))
            .any(|excuses| excuses.cover(expiry.from, expiry.to))
    }

    /// Notes how many jobs' stories are in memory.
    pub(crate) fn count_kept(&self) {
        let kept = {
            let model = self.model();
            model.ended.len() + model.open.len()
        };
        let mut tally = self.tally();
        tally.jobs_kept_max = tally.jobs_kept_max.max(kept);
    }

    pub(crate) fn count_injected(&self, fault: Fault, place: &str) {
        *self.tally().injected.entry((fault, place.to_owned())).or_default() += 1;
    }

    pub(crate) fn count_not_reached(&self, fault: Fault, place: &str) {
        *self.tally().not_reached.entry((fault, place.to_owned())).or_default() += 1;
    }

    /// Notes a fault that struck while this attempt was held.
    pub(crate) fn note_struck(&self, job: i64, attempt: i64, fault: Fault, place: &str) {
        let struck = Struck { attempt, fault, place: place.to_owned(), at: self.now() };
        self.model().struck.entry(job).or_default().push(struck);
    }

    /// Notes what somebody was told about a settle.
    pub(crate) fn note_told(&self, job: i64, told: Told) {
        use crate::protocol::Answer;
        let mut tally = self.tally();
        match told.status {
            Answer::Refused | Answer::Gone if told.rogue => tally.forged += 1,
            Answer::Refused | Answer::Gone => tally.refused += 1,
            Answer::Already => tally.already += 1,
            Answer::Done => {}
        }
        drop(tally);
        let mut model = self.model();
        model.told.entry(job).or_default().push(told);
        if model.ended.contains(JobId(job)) {
            model.told_late.insert(JobId(job));
        }
    }
}

#[cfg(test)]
mod tests {
    use turno::Verb;

    use super::*;
    use crate::protocol::Answer;

    #[test]
    fn forgetting_a_job_takes_late_results_with_it_that_were_refused_and_no_others() {
        let mut model = Model::default();
        let late = |attempt| Late { job: 1, attempt, worker: "w".into(), since: Instant::now() };
        model.late = vec![late(1), late(2)];
        let worker = "w".to_owned();
        let told = Told {
            attempt: 1,
            verb: Verb::Complete,
            status: Answer::Refused,
            state: None,
            worker,
            rogue: false,
        };
        model.told.insert(1, vec![told]);
        assert!(model.was_refused(&late(1)) && !model.was_refused(&late(2)));
        model.forget(JobId(1));
        assert_eq!(model.late.iter().map(|late| late.attempt).collect::<Vec<_>>(), [2]);
        assert!(model.told.is_empty());
    }

    #[test]
    fn overlapping_excuses_are_one() {
        let mut excuses = Excuses::default();
        let at = |s| OffsetDateTime::UNIX_EPOCH + time::Duration::seconds(s);
        for (since, until) in [(1, 3), (2, 5), (9, 10)] {
            excuses.add(at(since), at(until));
        }
        assert_eq!(excuses.0, [(at(1), at(5)), (at(9), at(10))]);
        assert!(excuses.cover(at(4), at(6)) && !excuses.cover(at(6), at(8)));
    }
}
