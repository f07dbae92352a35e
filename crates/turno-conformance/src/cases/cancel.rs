//! Cancel: at once while a job waits, as a request while it runs, by force at any time.

use std::time::Duration;

use turno_contract::{CancelAnswer, ErrorKind, HeartbeatAnswer, JobId, Retry, SettledStatus, State, Verb};

use crate::Kit;
use crate::kit::{assert_done, assert_refused, refused_as};

super::cases! {
    Nothing: [
        a_waiting_job_is_cancelled_at_once,
        an_ended_job_is_too_late_to_cancel,
        a_job_that_does_not_exist_is_not_found,
        a_running_job_is_asked_and_may_still_complete,
        anything_but_completion_ends_a_job_that_was_asked,
        force_revokes_a_running_job_at_once,
        a_cancel_that_races_with_completion_agrees_with_the_end,
        a_forced_cancel_that_races_with_completion_has_one_winner,
        a_cancel_that_races_with_a_claim_agrees_with_it,
    ],
}

/// Rule P1. B50.
async fn a_waiting_job_is_cancelled_at_once(kit: Kit) {
    for force in [false, true] {
        let ready = kit.enqueue_new(kit.new_job().unique_key("u")).await;
        let scheduled = kit.scheduled(Duration::from_secs(1000)).await;
        for id in [ready, scheduled] {
            assert_eq!(kit.backend().cancel(id, force).await.unwrap(), CancelAnswer::Cancelled);
            let job = kit.job(id).await;
            assert_eq!((job.state, job.attempt, job.worker), (State::Cancelled, 0, None));
            assert!(job.finished_at.is_some());
            assert!(kit.attempts(id).await.is_empty(), "it never ran");
        }
    }
    kit.age(Duration::from_secs(2000)).await;
    kit.promote().await;
    assert_eq!(kit.claim_ids(10).await, vec![]);
    assert_eq!(kit.count("job", "1 = 1").await, 0);
}

/// Rule P1. B50.
async fn an_ended_job_is_too_late_to_cancel(kit: Kit) {
    for end in [State::Succeeded, State::Dead, State::Cancelled] {
        let job = kit.running_one().await;
        match end {
            State::Succeeded => assert_done(&kit.complete(job.proof).await, end),
            State::Dead => assert_done(&kit.fail(job.proof, "no", Retry::Never).await, end),
            _ => drop(kit.backend().cancel(job.proof.job, true).await.unwrap()),
        }
        let before = kit.job(job.proof.job).await;
        for force in [false, true] {
            assert_eq!(kit.backend().cancel(job.proof.job, force).await.unwrap(), CancelAnswer::TooLate(end));
        }
        assert_eq!(kit.job(job.proof.job).await, before);
    }
}

/// Rule P1.
async fn a_job_that_does_not_exist_is_not_found(kit: Kit) {
    for id in [JobId(0), JobId(-1), JobId(i64::MAX)] {
        refused_as(kit.backend().cancel(id, false).await, ErrorKind::NotFound);
        refused_as(kit.backend().cancel(id, true).await, ErrorKind::NotFound);
    }
}

/// Rule P2. B50.
async fn a_running_job_is_asked_and_may_still_complete(kit: Kit) {
    let job = kit.running_one().await;
    for _ in 0..2 {
        assert_eq!(kit.backend().cancel(job.proof.job, false).await.unwrap(), CancelAnswer::Requested);
    }
    let record = kit.job(job.proof.job).await;
    assert_eq!(record.state, State::Running);
    assert!(record.cancel_requested_at.is_some());
    assert!(matches!(kit.beat(job.proof).await, HeartbeatAnswer::Held { cancel_requested: true, .. }));
    assert_done(&kit.complete_with(job.proof, Some("1")).await, State::Succeeded);
    assert_eq!(kit.job(job.proof.job).await.result.as_deref(), Some("1"));
}

/// Rules P2, S4. B50.
async fn anything_but_completion_ends_a_job_that_was_asked(kit: Kit) {
    for end in ["fail", "fail for good", "fail later", "release", "release later"] {
        let job = kit.running(kit.new_job().max_attempts(5)).await;
        assert_eq!(kit.backend().cancel(job.proof.job, false).await.unwrap(), CancelAnswer::Requested);
        let later = Duration::from_secs(10);
        for status in [SettledStatus::Done, SettledStatus::Already] {
            let settled = match end {
                "fail" => kit.fail(job.proof, "stopped", Retry::Policy).await,
                "fail for good" => kit.fail(job.proof, "stopped", Retry::Never).await,
                "fail later" => kit.fail(job.proof, "stopped", Retry::In(later)).await,
                "release" => kit.release(job.proof, None).await,
                _ => kit.release(job.proof, Some(later)).await,
            };
            let expected = (status, Some(State::Cancelled), None);
            assert_eq!((settled.status, settled.state, settled.run_at), expected, "{end}: {settled:?}");
        }
        assert_eq!(kit.state(job.proof.job).await, State::Cancelled);
        let verb = if end.starts_with("fail") { Verb::Fail } else { Verb::Release };
        let attempt = crate::kit::only(kit.attempts(job.proof.job).await);
        assert_eq!(attempt.verb, verb);
        assert_eq!(attempt.error.as_deref(), (verb == Verb::Fail).then_some("stopped"));
    }
}

/// Rules P2, O4, F7, S7.
async fn force_revokes_a_running_job_at_once(kit: Kit) {
    let job = kit.running(kit.new_job().unique_key("u")).await;
    assert_eq!(kit.backend().cancel(job.proof.job, true).await.unwrap(), CancelAnswer::Cancelled);
    let record = kit.job(job.proof.job).await;
    assert_eq!((record.state, record.lease_until), (State::Cancelled, None));
    let attempt = crate::kit::only(kit.attempts(job.proof.job).await);
    assert_eq!((attempt.attempt, attempt.verb, attempt.charged), (1, Verb::Revoke, false));
    assert_eq!(kit.beat(job.proof).await, HeartbeatAnswer::Lost);
    assert_refused(&kit.complete(job.proof).await, State::Cancelled);
    assert_refused(&kit.fail(job.proof, "no", Retry::Policy).await, State::Cancelled);
    assert_refused(&kit.release(job.proof, None).await, State::Cancelled);
    assert_eq!(kit.refused(job.proof.job).await.len(), 3);
    assert_eq!(kit.job(job.proof.job).await, record);
    assert!(kit.enqueue(kit.new_job().unique_key("u")).await.created);
}

/// Cancels and completes a running job at once; answers both answers and the job's end.
async fn race(kit: &Kit, force: bool) -> (CancelAnswer, SettledStatus, State) {
    let job = kit.running_one().await;
    let (backend, id) = (kit.backend_shared(), job.proof.job);
    let cancel = tokio::spawn(async move { backend.cancel(id, force).await.unwrap() });
    let other = kit.clone();
    let complete = tokio::spawn(async move { other.complete(job.proof).await.status });
    let (cancel, complete) = (cancel.await.unwrap(), complete.await.unwrap());
    (cancel, complete, kit.state(id).await)
}

/// Rule P2. B50: a request never undoes a completion.
async fn a_cancel_that_races_with_completion_agrees_with_the_end(kit: Kit) {
    for _ in 0..40 {
        let (cancel, complete, end) = race(&kit, false).await;
        assert_eq!((complete, end), (SettledStatus::Done, State::Succeeded));
        assert!(
            matches!(cancel, CancelAnswer::Requested | CancelAnswer::TooLate(State::Succeeded)),
            "{cancel:?}"
        );
    }
}

/// Rule P2. B50.
async fn a_forced_cancel_that_races_with_completion_has_one_winner(kit: Kit) {
    for _ in 0..40 {
        match race(&kit, true).await {
            (CancelAnswer::Cancelled, SettledStatus::Refused, State::Cancelled) => {}
            (CancelAnswer::TooLate(State::Succeeded), SettledStatus::Done, State::Succeeded) => {}
            other => panic!("the answers contradict each other: {other:?}"),
        }
    }
}

/// Rules P1, P2, C1. B50.
async fn a_cancel_that_races_with_a_claim_agrees_with_it(kit: Kit) {
    for _ in 0..40 {
        let id = kit.enqueue_one().await;
        let (backend, other) = (kit.backend_shared(), kit.clone());
        let cancel = tokio::spawn(async move { backend.cancel(id, false).await.unwrap() });
        let claim = tokio::spawn(async move { other.claim_n(1).await.pop() });
        match (cancel.await.unwrap(), claim.await.unwrap()) {
            (CancelAnswer::Cancelled, None) => assert_eq!(kit.state(id).await, State::Cancelled),
            (CancelAnswer::Requested, Some(job)) => {
                assert!(matches!(
                    kit.beat(job.proof).await,
                    HeartbeatAnswer::Held { cancel_requested: true, .. }
                ));
                assert_done(&kit.release(job.proof, None).await, State::Cancelled);
            }
            other => panic!("the answers contradict each other: {other:?}"),
        }
    }
}
