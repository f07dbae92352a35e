//! Tests of the outbox: grouping, repeats, and verdicts that cannot be stored.

use turno_contract::{Error, JobId, Token};

use super::*;

const GROUPING: Grouping = Grouping { within: Duration::from_millis(2), batch: 5 };
const FAR: Duration = Duration::from_secs(1000);

fn failure(id: i64, text: &str) -> Failure {
    let proof = Proof { job: JobId(id), attempt: 1, token: Token::random() };
    Failure { proof, error: text.into(), retry: Retry::Policy }
}

fn lane(now: Instant, n: i64) -> Lane<Failure> {
    let mut lane = Lane::new(GROUPING);
    (0..n).for_each(|id| lane.push(failure(id, "boom"), now, now + FAR));
    lane
}

fn ids(batch: &[Pending<Failure>]) -> Vec<i64> {
    batch.iter().map(|pending| pending.verdict.proof.job.0).collect()
}

fn unavailable() -> Error {
    Error::new(ErrorKind::Unavailable, "gone")
}

#[test]
fn a_verdict_waits_for_company_only_for_the_stated_time() {
    let now = Instant::now();
    let mut few = lane(now, 2);
    assert!(few.next(now, false).is_none());
    assert_eq!(few.timer(false), Some(now + GROUPING.within));
    assert_eq!(ids(&few.next(now + GROUPING.within, false).unwrap()), [0, 1]);
    assert_eq!(ids(&lane(now, 2).next(now, true).unwrap()), [0, 1], "not at a shutdown");
    assert_eq!(ids(&lane(now, 7).next(now, false).unwrap()), [0, 1, 2, 3, 4], "a full group leaves at once");
}

#[test]
fn one_call_at_a_time_and_nothing_is_lost_by_a_transient_error() {
    let now = Instant::now();
    let mut lane = lane(now, 7);
    let batch = lane.next(now, true).unwrap();
    assert!(lane.next(now, true).is_none());
    assert_eq!(lane.len(), 7);
    assert!(lane.failed(batch, &unavailable(), now).is_empty());
    assert!(lane.next(now, true).is_none(), "a pause first");
    let later = lane.timer(true).unwrap();
    assert!(later > now && later <= now + Duration::from_millis(25));
    assert_eq!(ids(&lane.next(later, true).unwrap()), [0, 1, 2, 3, 4], "in their old order");
    lane.answered();
    assert_eq!(ids(&lane.next(later, true).unwrap()), [5, 6]);
    lane.answered();
    assert!(lane.is_empty());
}

/// Known fault B18: one verdict that cannot be stored neither holds up the others nor stays as it is.
#[test]
fn a_verdict_that_cannot_be_stored_travels_alone_then_shrinks() {
    let now = Instant::now();
    let mut lane = lane(now, 3);
    let refused = Error::new(ErrorKind::Internal, "a constraint");
    let batch = lane.next(now, true).unwrap();
    assert!(lane.failed(batch, &refused, now).is_empty());
    let first = lane.next(now, true).unwrap();
    assert_eq!(ids(&first), [0], "each alone, at once");
    assert!(lane.failed(first, &refused, now).is_empty());
    let shrunk = lane.next(now, true).unwrap();
    assert_eq!(ids(&shrunk), [0]);
    assert!(shrunk[0].verdict.error.contains("error of 4 bytes could not be stored"));
    assert!(lane.failed(shrunk, &refused, now).is_empty());
    let later = lane.timer(true).unwrap();
    assert_eq!(ids(&lane.next(later, true).unwrap()), [1], "the next one's turn");
    lane.answered();
    assert_eq!(ids(&lane.next(later, true).unwrap()), [2]);
    lane.answered();
    assert_eq!(ids(&lane.next(later, true).unwrap()), [0], "and again, until its lease is long over");
}

#[test]
fn a_verdict_is_given_up_only_when_its_time_is_over() {
    let now = Instant::now();
    let mut lane = Lane::new(GROUPING);
    lane.push(failure(1, "x"), now, now + Duration::from_secs(10));
    lane.push(failure(2, "x"), now, now + FAR);
    let mut at = now;
    let mut given_up = Vec::new();
    while given_up.is_empty() {
        at = at.max(lane.timer(true).unwrap());
        let batch = lane.next(at, true).unwrap();
        given_up = lane.failed(batch, &unavailable(), at);
    }
    assert_eq!(ids(&given_up), [1]);
    assert!(at >= now + Duration::from_secs(10) && at <= now + Duration::from_secs(12));
    assert_eq!(lane.len(), 1);
}

#[test]
fn a_batch_is_bounded_by_bytes_and_a_huge_verdict_travels_alone() {
    let now = Instant::now();
    let mut lane = Lane::new(GROUPING);
    let huge = "x".repeat(17 << 20);
    for (id, text) in [(0, "small"), (1, huge.as_str()), (2, "small"), (3, "small")] {
        lane.push(failure(id, text), now, now + FAR);
    }
    let mut order = Vec::new();
    while let Some(batch) = lane.next(now, true) {
        order.push(ids(&batch));
        lane.answered();
    }
    assert_eq!(order, [vec![0], vec![1], vec![2, 3]]);
}

#[test]
fn a_result_is_not_dropped_for_missing_rights_or_a_schema_that_changes() {
    let now = Instant::now();
    for kind in [ErrorKind::PermissionDenied, ErrorKind::VersionMismatch, ErrorKind::Unavailable] {
        let mut lane = lane(now, 2);
        let mut at = now;
        for _ in 0..3 {
            at = at.max(lane.timer(true).unwrap());
            let batch = lane.next(at, true).unwrap();
            assert_eq!(ids(&batch), [0, 1], "together, as before");
            assert!(batch.iter().all(|pending| pending.verdict.error == "boom"));
            assert!(lane.failed(batch, &Error::new(kind, "not now"), at).is_empty());
        }
    }
}
