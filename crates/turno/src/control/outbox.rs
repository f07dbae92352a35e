//! Verdicts on their way to the database: grouped, repeated until they are answered, and bounded. It refuses to drop
//! a verdict before its lease is long over, and to let one that cannot be stored hold up the others.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use turno_contract::{Backend, Completion, ErrorKind, Failure, Proof, Release, Result, Retry, Settled, Verb};

use super::backoff::Backoff;

/// Most bytes of results or errors in one call.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// What the three verbs have in common.
pub(super) trait Verdict: Clone + Send + Sync + Sized + 'static {
    const VERB: Verb;
    fn proof(&self) -> Proof;
    fn bytes(&self) -> usize;
    /// Makes the smallest verdict of the same meaning, for when the whole one cannot be stored (known fault B18).
    fn shrink(&mut self, error: &turno_contract::Error);
    fn send<'a>(
        backend: &'a dyn Backend,
        worker: &'a str,
        verdicts: &'a [Self],
    ) -> BoxFuture<'a, Result<Vec<Settled>>>;
}

impl Verdict for Completion {
    const VERB: Verb = Verb::Complete;

    fn proof(&self) -> Proof {
        self.proof
    }

    fn bytes(&self) -> usize {
        self.result.as_ref().map_or(0, String::len)
    }

    fn shrink(&mut self, error: &turno_contract::Error) {
        let note = serde_json::json!({
            "turno": "the result could not be stored", "why": error.kind().as_str(), "bytes": self.bytes(),
        });
        self.result = Some(note.to_string());
    }

    fn send<'a>(
        backend: &'a dyn Backend,
        worker: &'a str,
        verdicts: &'a [Self],
    ) -> BoxFuture<'a, Result<Vec<Settled>>> {
        backend.complete(worker, verdicts)
    }
}

impl Verdict for Failure {
    const VERB: Verb = Verb::Fail;

    fn proof(&self) -> Proof {
        self.proof
    }

    fn bytes(&self) -> usize {
        self.error.len()
    }

    fn shrink(&mut self, error: &turno_contract::Error) {
        let bytes = self.error.len();
        self.error =
            format!("failed; its error of {bytes} bytes could not be stored ({})", error.kind().as_str());
        if let Retry::In(_) = self.retry {
            self.retry = Retry::Policy;
        }
    }

    fn send<'a>(
        backend: &'a dyn Backend,
        worker: &'a str,
        verdicts: &'a [Self],
    ) -> BoxFuture<'a, Result<Vec<Settled>>> {
        backend.fail(worker, verdicts)
    }
}

impl Verdict for Release {
    const VERB: Verb = Verb::Release;

    fn proof(&self) -> Proof {
        self.proof
    }

    fn bytes(&self) -> usize {
        0
    }

    fn shrink(&mut self, _error: &turno_contract::Error) {
        self.delay = None;
    }

    fn send<'a>(
        backend: &'a dyn Backend,
        worker: &'a str,
        verdicts: &'a [Self],
    ) -> BoxFuture<'a, Result<Vec<Settled>>> {
        backend.release(worker, verdicts)
    }
}

/// One verdict and what is needed to send it.
#[derive(Debug, Clone)]
pub(super) struct Pending<V> {
    pub(super) verdict: V,
    pub(super) since: Instant,
    /// When it is given up: its lease is long over by then.
    pub(super) give_up_at: Instant,
    /// Travels alone, because a batch with it failed.
    alone: bool,
    shrunk: bool,
}

/// Verdicts that travel together.
pub(super) type Batch<V> = Arc<Vec<Pending<V>>>;

/// How verdicts are grouped.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grouping {
    pub(super) within: Duration,
    pub(super) batch: usize,
}

/// The verdicts of one verb; at most one call is on its way.
#[derive(Debug)]
pub(super) struct Lane<V> {
    queue: VecDeque<Pending<V>>,
    in_flight: usize,
    not_before: Option<Instant>,
    backoff: Backoff,
    grouping: Grouping,
}

impl<V: Verdict> Lane<V> {
    pub(super) fn new(grouping: Grouping) -> Self {
        Lane {
            queue: VecDeque::new(),
            in_flight: 0,
            not_before: None,
            backoff: Backoff::new(Duration::from_secs(1)),
            grouping,
        }
    }

    pub(super) fn push(&mut self, verdict: V, since: Instant, give_up_at: Instant) {
        self.queue.push_back(Pending { verdict, since, give_up_at, alone: false, shrunk: false });
    }

    /// Those that wait and those that travel.
    pub(super) fn len(&self) -> usize {
        self.queue.len() + self.in_flight
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When the next batch leaves; `hurry` does not wait for company.
    pub(super) fn timer(&self, hurry: bool) -> Option<Instant> {
        if self.in_flight > 0 {
            return None;
        }
        let first = self.queue.front()?;
        let full = self.queue.len() >= self.grouping.batch;
        let leaves = if hurry || full { first.since } else { first.since + self.grouping.within };
        Some(self.not_before.map_or(leaves, |not_before| not_before.max(leaves)))
    }

    /// The batch that leaves now.
    pub(super) fn next(&mut self, now: Instant, hurry: bool) -> Option<Batch<V>> {
        if self.timer(hurry)? > now {
            return None;
        }
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(pending) = self.queue.front() {
            bytes += pending.verdict.bytes();
            let fits = batch.len() < self.grouping.batch && bytes <= BATCH_BYTES_MAX && !pending.alone;
            if !fits && !batch.is_empty() {
                break;
            }
            let alone = pending.alone;
            batch.extend(self.queue.pop_front());
            if alone {
                break;
            }
        }
        self.in_flight = batch.len();
        Some(Arc::new(batch))
    }

    /// The batch was answered.
    pub(super) fn answered(&mut self) {
        self.in_flight = 0;
        self.not_before = None;
        self.backoff.reset();
    }

    /// The batch was not carried out: it is sent again; one by one and shrunk if it may be what it says that cannot be
    /// stored.
    /// Answers with what is given up.
    pub(super) fn failed(
        &mut self,
        batch: Batch<V>,
        error: &turno_contract::Error,
        now: Instant,
    ) -> Vec<Pending<V>> {
        self.in_flight = 0;
        let mut batch = Arc::unwrap_or_clone(batch);
        let mut at_once = false;
        let about_content = is_about_content(error);
        if about_content {
            if batch.len() > 1 {
                batch.iter_mut().for_each(|pending| pending.alone = true);
                at_once = true;
            } else if let Some(pending) = batch.first_mut().filter(|pending| !pending.shrunk) {
                pending.verdict.shrink(error);
                pending.shrunk = true;
                at_once = true;
            }
        }
        let pause = self.backoff.failed(now);
        self.not_before = (!at_once).then(|| now + pause);
        let (keep, given_up): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|pending| pending.give_up_at > now);
        // One that cannot be stored goes to the end, so that it does not hold up those behind it.
        if !about_content || at_once {
            keep.into_iter().rev().for_each(|pending| self.queue.push_front(pending));
        } else {
            self.queue.extend(keep);
        }
        given_up
    }
}

/// Whether the error may be about what the verdicts say. Missing rights or a schema that is being changed are not: those
/// pass, and no result shall be dropped for them.
fn is_about_content(error: &turno_contract::Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::Internal | ErrorKind::Conflict)
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
