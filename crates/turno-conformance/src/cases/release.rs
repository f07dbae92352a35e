//! Release: a job given back without a charge.

use std::time::Duration;

use turno_contract::{ErrorKind, Release, Retry, SettledStatus, State, Verb, limits};

use crate::Kit;
use crate::kit::{WORKER, assert_done, assert_near, assert_refused, refused_as, stolen};

super::cases! {
    Nothing: [
        a_released_job_keeps_its_due_time_and_its_place,
        a_release_with_a_delay_waits_that_long,
        a_release_charges_nothing_however_often,
        a_delay_beyond_the_limit_is_refused,
        the_same_release_again_is_answered_from_the_record,
        another_verb_after_a_release_is_refused,
        a_wrong_proof_releases_nothing,
    ],
}

/// Rule S2.
async fn a_released_job_keeps_its_due_time_and_its_place(kit: Kit) {
    let all = kit.enqueue_n(3).await;
    kit.age(Duration::from_secs(60)).await;
    let job = kit.claim_one().await;
    let settled = kit.release(job.proof, None).await;
    assert_done(&settled, State::Ready);
    let record = kit.job(all[0]).await;
    assert_eq!((record.state, record.run_at, record.attempt), (State::Ready, job.run_at, 1));
    assert_eq!((record.lease_until, record.failures), (None, 0));
    let again = kit.claim_n(3).await;
    assert_eq!(crate::kit::ids(&again), all);
    assert_eq!((again[0].proof.attempt, again[0].rank), (2, job.rank));
    let attempt = crate::kit::only(kit.attempts(all[0]).await);
    assert_eq!((attempt.verb, attempt.charged, attempt.error), (Verb::Release, false, None));
}

/// Rules S2, T1.
async fn a_release_with_a_delay_waits_that_long(kit: Kit) {
    let delay = Duration::from_secs(90);
    let job = kit.running_one().await;
    let settled = kit.release(job.proof, Some(delay)).await;
    assert_done(&settled, State::Scheduled);
    let attempt = crate::kit::only(kit.attempts(job.proof.job).await);
    assert_near(settled.run_at.unwrap(), attempt.ended_at + delay, Duration::from_millis(1));
    assert_eq!(kit.job(job.proof.job).await.run_at, settled.run_at.unwrap());
    assert_eq!(kit.claim_ids(1).await, vec![]);
    kit.age(delay + Duration::from_secs(1)).await;
    kit.promote().await;
    assert_eq!(kit.claim_ids(1).await, vec![job.proof.job]);
}

/// Rules S2, F1.
async fn a_release_charges_nothing_however_often(kit: Kit) {
    let id = kit.enqueue_new(kit.new_job().max_attempts(1)).await;
    for n in 1..=30 {
        let job = kit.claim_one().await;
        assert_eq!((job.proof.attempt, job.failures), (n, 0));
        assert_done(&kit.release(job.proof, None).await, State::Ready);
    }
    let job = kit.claim_one().await;
    assert_done(&kit.fail(job.proof, "no", Retry::Policy).await, State::Dead);
    assert_eq!(kit.job(id).await.failures, 1);
}

/// Rules S2, E9. B41.
async fn a_delay_beyond_the_limit_is_refused(kit: Kit) {
    let job = kit.running_one().await;
    for delay in [limits::DELAY_MAX + Duration::from_millis(1), Duration::MAX] {
        let release = Release { proof: job.proof, delay: Some(delay) };
        refused_as(kit.backend().release(WORKER, &[release]).await, ErrorKind::InvalidArgument);
    }
    assert_done(&kit.release(job.proof, Some(limits::DELAY_MAX)).await, State::Scheduled);
}

/// Rules S4, O2.
async fn the_same_release_again_is_answered_from_the_record(kit: Kit) {
    let job = kit.running_one().await;
    let first = kit.release(job.proof, Some(Duration::from_secs(60))).await;
    let again = kit.release(job.proof, None).await;
    assert_eq!(
        (again.status, again.state, again.run_at),
        (SettledStatus::Already, first.state, first.run_at)
    );
    assert_eq!(kit.attempts(job.proof.job).await.len(), 1);
    assert_eq!(kit.state(job.proof.job).await, State::Scheduled);
    assert!(kit.refused(job.proof.job).await.is_empty());
    assert_refused(&kit.release(stolen(job.proof), None).await, State::Scheduled);
}

/// Rules S4, S7. B01: the job is somebody else's by now.
async fn another_verb_after_a_release_is_refused(kit: Kit) {
    let job = kit.running_one().await;
    kit.release(job.proof, None).await;
    let owner = kit.claim_one().await;
    for settled in [kit.complete(job.proof).await, kit.fail(job.proof, "no", Retry::Never).await] {
        assert_refused(&settled, State::Running);
    }
    assert_eq!(kit.refused(job.proof.job).await.len(), 2);
    assert!(kit.is_held(owner.proof).await);
    assert_done(&kit.complete(owner.proof).await, State::Succeeded);
}

/// Rules O2, S3, S7.
async fn a_wrong_proof_releases_nothing(kit: Kit) {
    let job = kit.running_one().await;
    assert_refused(&kit.release(stolen(job.proof), None).await, State::Running);
    assert!(kit.is_held(job.proof).await);
    let line = crate::kit::only(kit.refused(job.proof.job).await);
    assert_eq!((line.verb, line.owner_attempt, line.state), (Verb::Release, Some(1), Some(State::Running)));
}
