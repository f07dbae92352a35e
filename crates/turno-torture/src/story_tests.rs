//! Each check against a good story with one thing changed. Refuses to need a database.

use time::macros::datetime;
use turno::JobId;
use uuid::Uuid;

use super::*;
use crate::effects::Effect;

const START: OffsetDateTime = datetime!(2026-01-01 00:00 UTC);

fn at(ms: i64) -> OffsetDateTime {
    START + time::Duration::milliseconds(ms)
}

fn attempt(number: i64, from_ms: i64, to_ms: i64, verb: Verb) -> AttemptRecord {
    AttemptRecord {
        attempt: number,
        worker: Some(format!("w{number}")),
        claimed_at: at(from_ms),
        started_at: Some(at(from_ms)),
        ended_at: at(to_ms),
        verb,
        charged: matches!(verb, Verb::Fail | Verb::Expire),
        error: None,
        error_bytes: None,
    }
}

fn told(attempt: i64, verb: Verb, status: Answer, state: State) -> Told {
    Told { attempt, verb, status, state: Some(state), worker: format!("w{attempt}"), rogue: false }
}

/// A job whose first worker was lost and whose second one completed it.
fn story() -> Story {
    let operation_id = Uuid::from_u128(1);
    let effect = |attempt: i64, opens: bool| Effect {
        operation_id,
        job: 1,
        attempt,
        token_hash: "t".into(),
        worker: format!("w{attempt}"),
        opens,
    };
    let lines = vec![
        (effect(1, true), None),
        (effect(2, true), None),
        (effect(1, false), Some(Sunk::Fenced)),
        (effect(2, false), Some(Sunk::Applied)),
    ];
    let operation = Operation { job: 1, highest: 2, applied_by: Some(1), fenced_applied_by: Some(2), lines };
    Story {
        record: JobRecord {
            id: JobId(1),
            queue: "q".into(),
            kind: "k".into(),
            state: State::Succeeded,
            payload: Some("{}".into()),
            priority: 0,
            attempt: 2,
            failures: 1,
            max_attempts: 3,
            max_run: Duration::from_secs(60),
            operation_id,
            unique_key: None,
            created_at: START,
            run_at: START,
            worker: Some("w2".into()),
            claimed_at: Some(at(1200)),
            lease_until: None,
            cancel_requested_at: None,
            finished_at: Some(at(1500)),
            result: Some(r#"{"attempt":2,"worker":"w2"}"#.into()),
            error: None,
            traceparent: None,
        },
        attempts: vec![attempt(1, 0, 1100, Verb::Expire), attempt(2, 1200, 1500, Verb::Complete)],
        refused: Vec::new(),
        told: vec![told(2, Verb::Complete, Answer::Done, State::Succeeded)],
        struck: vec![Struck { attempt: 1, fault: Fault::Kill, place: "x".into(), at: at(200) }],
        effects: Some(operation),
        cancel_asked: false,
        lease: Duration::from_secs(1),
        partial: false,
    }
}

fn checks(change: impl FnOnce(&mut Story)) -> Vec<&'static str> {
    let mut story = story();
    change(&mut story);
    let mut checks: Vec<_> = story.check().into_iter().map(|(check, _)| check).collect();
    checks.dedup();
    checks
}

#[test]
fn a_good_story_has_no_contradiction_and_a_recovery() {
    assert_eq!(story().check(), []);
    assert_eq!(story().recoveries(), [Duration::from_millis(1000)]);
    assert!(story().tell().len() > 8);
}

#[test]
fn every_contradiction_is_found() {
    assert_eq!(checks(|story| story.attempts[1].claimed_at = at(1000)), ["leases_overlap"]);
    assert_eq!(checks(|story| story.attempts[0].ended_at = at(500)), ["expired_early"]);
    assert_eq!(checks(|story| story.attempts[1].attempt = 3), ["attempts_gap", "answer"]);
    assert_eq!(checks(|story| story.record.failures = 4), ["budget"]);
    assert_eq!(checks(|story| story.record.failures = 0), ["budget"]);
    let uncharged = |story: &mut Story| {
        story.attempts[0].charged = false;
        story.record.failures = 0;
    };
    assert_eq!(checks(uncharged), ["charge"]);
    let stale = |story: &mut Story| story.record.result = Some(r#"{"attempt":1,"worker":"w1"}"#.into());
    assert_eq!(checks(stale), ["stale_result"]);
    assert_eq!(checks(|story| story.record.state = State::Cancelled), ["final_state"]);
    let late = told(1, Verb::Complete, Answer::Done, State::Succeeded);
    assert_eq!(checks(|story| story.told.push(late)), ["answer", "accepted_twice"]);
    let forged = Told { rogue: true, ..told(2, Verb::Complete, Answer::Done, State::Running) };
    assert_eq!(checks(|story| story.told.push(forged)), ["forged_proof"]);
    let refused = told(1, Verb::Complete, Answer::Refused, State::Running);
    assert_eq!(checks(|story| story.told.push(refused)), ["ledger"]);
    assert_eq!(checks(|story| story.effects = None), ["effect"]);
    let fenced = |story: &mut Story| {
        if let Some(operation) = &mut story.effects {
            operation.lines[3].1 = Some(Sunk::Fenced);
        }
    };
    assert_eq!(checks(fenced), ["fence"]);
}
