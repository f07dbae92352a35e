//! What is remembered of jobs that have ended, so that a run of any length needs the same memory: the newest one by one,
//! the others as sums over a thousand ids. It refuses to forget a job that has not been checked.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use time::OffsetDateTime;
use turno::{JobId, JobRecord, State};

/// How long an ended job is remembered by itself: a late answer about it comes within this time.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(60);
/// More ended jobs than this are never remembered by themselves.
pub(crate) const KEPT_MAX: usize = 20_000;
/// How long answers about a job that nobody enqueued so far are kept: its enqueue may not have been answered yet.
pub(crate) const STRAY_FOR: Duration = Duration::from_secs(600);
/// Ids that one sum stands for.
const BLOCK_IDS: i64 = 1000;

/// How a job ended, as far as it must never change again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Ended {
    pub(crate) state: State,
    pub(crate) attempt: i64,
    pub(crate) finished_at: Option<OffsetDateTime>,
}

impl From<&JobRecord> for Ended {
    fn from(record: &JobRecord) -> Self {
        Ended { state: record.state, attempt: record.attempt, finished_at: record.finished_at }
    }
}

/// What is left of jobs whose ids lie together: how many, and a sum that changes if one of them does.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) jobs: u64,
    sum: u64,
}

/// Blocks by the thousands of their ids.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Blocks(BTreeMap<i64, Block>);

impl Blocks {
    pub(crate) fn add(&mut self, job: JobId, ended: Ended) {
        let mut hasher = DefaultHasher::new();
        (job.0, ended).hash(&mut hasher);
        let block = self.0.entry(job.0 / BLOCK_IDS).or_default();
        block.jobs += 1;
        // A sum does not depend on the order in which jobs ended.
        block.sum = block.sum.wrapping_add(hasher.finish());
    }

    /// Whether any job was added whose id lies near.
    pub(crate) fn reach(&self, job: JobId) -> bool {
        self.0.contains_key(&(job.0 / BLOCK_IDS))
    }

    /// What is not the same in what was found later, in words.
    pub(crate) fn differences(&self, found: &Blocks) -> Vec<String> {
        let mut numbers: Vec<i64> = self.0.keys().chain(found.0.keys()).copied().collect();
        numbers.sort_unstable();
        numbers.dedup();
        let of = |blocks: &Blocks, number| blocks.0.get(&number).copied().unwrap_or_default();
        numbers
            .into_iter()
            .filter(|number| of(self, *number) != of(found, *number))
            .map(|number| {
                let (was, is) = (of(self, number).jobs, of(found, number).jobs);
                let (first, last) = (number * BLOCK_IDS, number * BLOCK_IDS + BLOCK_IDS - 1);
                format!(
                    "of the jobs {first} to {last}, {was} had ended and were set aside; now {is} are found, \
                     and they are not as they were"
                )
            })
            .collect()
    }
}

/// Jobs that have ended.
#[derive(Debug, Default)]
pub(crate) struct EndedJobs {
    kept: HashMap<JobId, Ended>,
    order: VecDeque<(Instant, JobId)>,
    aside: Blocks,
    counts: HashMap<State, u64>,
}

impl EndedJobs {
    pub(crate) fn insert(&mut self, job: JobId, ended: Ended) {
        if self.kept.insert(job, ended).is_none() {
            self.order.push_back((Instant::now(), job));
            *self.counts.entry(ended.state).or_default() += 1;
        }
    }

    /// Whether the job is remembered by itself.
    pub(crate) fn contains(&self, job: JobId) -> bool {
        self.kept.contains_key(&job)
    }

    pub(crate) fn get(&self, job: JobId) -> Option<Ended> {
        self.kept.get(&job).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(crate) fn kept(&self) -> impl Iterator<Item = (JobId, Ended)> {
        self.kept.iter().map(|(job, ended)| (*job, *ended))
    }

    /// How many ended like this, whether they are remembered by themselves or not.
    pub(crate) fn count(&self, state: State) -> u64 {
        self.counts.get(&state).copied().unwrap_or_default()
    }

    /// The job that has been kept for long enough, or is one too many.
    pub(crate) fn due(&self, now: Instant) -> Option<JobId> {
        let (since, job) = self.order.front()?;
        let due = self.order.len() > KEPT_MAX || now.saturating_duration_since(*since) > KEPT_FOR;
        due.then_some(*job)
    }

    /// From here on only the sum knows the job that was [`due`](EndedJobs::due).
    pub(crate) fn set_aside(&mut self, job: JobId) {
        if self.order.front().is_some_and(|(_, first)| *first == job) {
            self.order.pop_front();
        }
        if let Some(ended) = self.kept.remove(&job) {
            self.aside.add(job, ended);
        }
    }

    pub(crate) fn aside(&self) -> &Blocks {
        &self.aside
    }
}

/// Jobs that are mentioned although nobody knows them: set aside, or not known yet.
#[derive(Debug, Default)]
pub(crate) struct Strays(HashMap<JobId, Instant>);

impl Strays {
    /// Takes in who is one now; answers who has been one for too long, and forgets them.
    pub(crate) fn expire(&mut self, mentioned: HashSet<JobId>, now: Instant) -> Vec<JobId> {
        self.0.retain(|job, _| mentioned.contains(job));
        for job in mentioned {
            self.0.entry(job).or_insert(now);
        }
        let expired = self.0.iter().filter(|(_, since)| now.saturating_duration_since(**since) > STRAY_FOR);
        let expired: Vec<JobId> = expired.map(|(job, _)| *job).collect();
        self.0.retain(|job, _| !expired.contains(job));
        expired
    }
}

/// How often each time was taken, to the millisecond.
#[derive(Debug, Default, Clone)]
pub(crate) struct Times(BTreeMap<u64, u64>);

impl Times {
    pub(crate) fn add(&mut self, time: Duration) {
        *self.0.entry(time.as_millis() as u64).or_default() += 1;
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.values().sum()
    }

    /// The time that this share of all did not exceed, in milliseconds.
    pub(crate) fn percentile_ms(&self, share: f64) -> u64 {
        let rank = (self.len() as f64 * share).ceil() as u64;
        let mut seen = 0;
        let reached = self.0.iter().find(|(_, times)| {
            seen += **times;
            seen >= rank
        });
        reached.map_or(0, |(ms, _)| *ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(attempt: i64) -> Ended {
        Ended { state: State::Succeeded, attempt, finished_at: None }
    }

    #[test]
    fn sums_tell_whether_a_job_changed_whatever_the_order() {
        let (mut was, mut is) = (Blocks::default(), Blocks::default());
        for job in [1, 2, 1500] {
            was.add(JobId(job), ended(job));
        }
        for job in [1500, 2, 1] {
            is.add(JobId(job), ended(job));
        }
        assert_eq!(was, is);
        is.add(JobId(3), ended(1));
        assert_eq!(was.differences(&is).len(), 1);
        let mut changed = Blocks::default();
        for (job, attempt) in [(1, 1), (2, 3), (1500, 1500)] {
            changed.add(JobId(job), ended(attempt));
        }
        assert_eq!(was.differences(&changed).len(), 1);
    }

    #[test]
    fn an_ended_job_is_set_aside_after_its_time_and_still_counts() {
        let mut jobs = EndedJobs::default();
        jobs.insert(JobId(7), ended(1));
        jobs.insert(JobId(8), ended(1));
        assert_eq!(jobs.due(Instant::now()), None);
        let later = Instant::now() + KEPT_FOR + Duration::from_secs(1);
        assert_eq!(jobs.due(later), Some(JobId(7)));
        jobs.set_aside(JobId(7));
        assert_eq!((jobs.due(later), jobs.len(), jobs.contains(JobId(7))), (Some(JobId(8)), 1, false));
        assert_eq!(jobs.count(State::Succeeded), 2);
        assert_ne!(*jobs.aside(), Blocks::default());
    }

    #[test]
    fn more_jobs_than_the_bound_are_never_kept() {
        let mut jobs = EndedJobs::default();
        for job in 0..=KEPT_MAX as i64 {
            jobs.insert(JobId(job), ended(1));
        }
        assert_eq!(jobs.due(Instant::now()), Some(JobId(0)));
    }

    #[test]
    fn a_stray_is_given_time() {
        let (mut strays, now) = (Strays::default(), Instant::now());
        let mentioned = || HashSet::from([JobId(1)]);
        assert!(strays.expire(mentioned(), now).is_empty());
        assert_eq!(strays.expire(mentioned(), now + STRAY_FOR * 2), [JobId(1)]);
    }

    #[test]
    fn percentiles_are_times_that_occurred() {
        let mut times = Times::default();
        (1..=100).map(Duration::from_millis).for_each(|time| times.add(time));
        assert_eq!((times.len(), times.percentile_ms(0.5), times.percentile_ms(0.99)), (100, 50, 99));
        assert_eq!(Times::default().percentile_ms(0.99), 0);
    }
}
