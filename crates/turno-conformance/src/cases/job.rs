//! One job's record, wherever it is in its life.

use std::time::Duration;

use turno_contract::{JobId, Retry, State};

use crate::Kit;
use crate::kit::{WORKER, assert_done};

super::cases! {
    Nothing: [
        a_job_that_does_not_exist_has_no_record,
        a_record_follows_the_job_through_its_life,
    ],
}

/// Rule V2.
async fn a_job_that_does_not_exist_has_no_record(kit: Kit) {
    for id in [JobId(0), JobId(-1), JobId(i64::MIN), JobId(i64::MAX)] {
        assert_eq!(kit.backend().job(id).await.unwrap(), None);
        assert_eq!(kit.attempts(id).await, vec![]);
    }
}

/// Rules X1, V2, O3.
async fn a_record_follows_the_job_through_its_life(kit: Kit) {
    let id = kit.scheduled(Duration::from_secs(60)).await;
    let first = kit.job(id).await;
    assert_eq!((first.state, first.attempt, first.lease_until), (State::Scheduled, 0, None));
    kit.age(Duration::from_secs(61)).await;
    kit.promote().await;
    assert_eq!(kit.state(id).await, State::Ready);
    let job = kit.claim_one().await;
    let running = kit.job(id).await;
    assert_eq!(
        (running.state, running.attempt, running.worker.as_deref()),
        (State::Running, 1, Some(WORKER))
    );
    assert!(running.lease_until > running.claimed_at && running.claimed_at >= Some(running.run_at));
    kit.fail(job.proof, "first", Retry::In(Duration::from_secs(60))).await;
    let waiting = kit.job(id).await;
    assert_eq!((waiting.state, waiting.attempt, waiting.failures), (State::Scheduled, 1, 1));
    assert_eq!((waiting.lease_until, waiting.finished_at, waiting.result), (None, None, None));
    kit.age(Duration::from_secs(61)).await;
    kit.promote().await;
    let job = kit.claim_one().await;
    assert_done(&kit.complete_with(job.proof, Some("7")).await, State::Succeeded);
    let ended = kit.job(id).await;
    assert_eq!((ended.state, ended.attempt, ended.failures), (State::Succeeded, 2, 1));
    assert_eq!((ended.operation_id, ended.result.as_deref()), (first.operation_id, Some("7")));
    assert!(ended.finished_at >= ended.claimed_at && ended.lease_until.is_none());
}
