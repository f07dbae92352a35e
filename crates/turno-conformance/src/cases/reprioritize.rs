//! Reprioritize: another place in the order, the same due time.

use std::time::Duration;

use turno_contract::{ErrorKind, JobId, Retry, State};

use crate::Kit;
use crate::kit::refused_as;

super::cases! {
    Nothing: [
        a_ready_job_moves_and_keeps_its_due_time,
        a_scheduled_job_has_its_new_priority_when_it_is_due,
        a_running_job_has_its_new_priority_when_it_is_given_back,
        an_ended_job_is_a_conflict,
        a_job_that_ends_meanwhile_is_still_found,
        priorities_outside_the_limits_are_refused,
    ],
}

/// Rules P4, C3.
async fn a_ready_job_moves_and_keeps_its_due_time(kit: Kit) {
    let all = kit.enqueue_n(4).await;
    let before = kit.job(all[2]).await;
    kit.backend().reprioritize(all[2], -1).await.unwrap();
    kit.backend().reprioritize(all[0], 1000).await.unwrap();
    let after = kit.job(all[2]).await;
    assert_eq!((after.priority, after.run_at, after.state), (-1, before.run_at, State::Ready));
    assert_eq!((after.attempt, after.operation_id), (0, before.operation_id));
    kit.backend().reprioritize(all[3], 5).await.unwrap();
    kit.backend().reprioritize(all[3], 0).await.unwrap();
    assert_eq!(kit.claim_ids(10).await, vec![all[2], all[1], all[3], all[0]]);
}

/// Rule P4.
async fn a_scheduled_job_has_its_new_priority_when_it_is_due(kit: Kit) {
    let id = kit.scheduled(Duration::from_secs(1000)).await;
    let run_at = kit.job(id).await.run_at;
    kit.backend().reprioritize(id, -7).await.unwrap();
    let job = kit.job(id).await;
    assert_eq!((job.priority, job.run_at, job.state), (-7, run_at, State::Scheduled));
    let older = kit.enqueue_one().await;
    kit.age(Duration::from_secs(1001)).await;
    kit.promote().await;
    assert_eq!(kit.claim_ids(10).await, vec![id, older]);
}

/// Rules P4, O4.
async fn a_running_job_has_its_new_priority_when_it_is_given_back(kit: Kit) {
    for verb in ["release", "fail"] {
        let all = kit.enqueue_n(2).await;
        let job = kit.claim_one().await;
        kit.backend().reprioritize(job.proof.job, 9).await.unwrap();
        let record = kit.job(job.proof.job).await;
        assert_eq!((record.priority, record.state, record.attempt), (9, State::Running, 1));
        assert!(kit.is_held(job.proof).await);
        if verb == "release" {
            kit.release(job.proof, None).await;
        } else {
            kit.fail(job.proof, "no", Retry::In(Duration::ZERO)).await;
            kit.promote().await;
        }
        let claimed = kit.claim_n(10).await;
        assert_eq!(crate::kit::ids(&claimed), vec![all[1], all[0]], "after {verb}");
        assert_eq!(claimed[1].priority, 9);
    }
}

/// Rule P4.
async fn an_ended_job_is_a_conflict(kit: Kit) {
    let dead = kit.dead_one(kit.new_job()).await.proof.job;
    let done = kit.running_one().await;
    kit.complete(done.proof).await;
    let cancelled = kit.enqueue_one().await;
    kit.backend().cancel(cancelled, false).await.unwrap();
    for id in [dead, done.proof.job, cancelled] {
        refused_as(kit.backend().reprioritize(id, 1).await, ErrorKind::Conflict);
        assert_eq!(kit.job(id).await.priority, 0);
    }
    for id in [JobId(0), JobId(i64::MAX)] {
        refused_as(kit.backend().reprioritize(id, 1).await, ErrorKind::NotFound);
    }
}

/// Rule P4.
async fn a_job_that_ends_meanwhile_is_still_found(kit: Kit) {
    for round in 0..40 {
        let proof = kit.running_one().await.proof;
        let backend = kit.backend_shared();
        let change = tokio::spawn(async move { backend.reprioritize(proof.job, 7).await });
        assert_eq!(kit.complete(proof).await.status, turno_contract::SettledStatus::Done);
        if let Err(error) = change.await.unwrap() {
            assert_eq!(error.kind(), ErrorKind::Conflict, "round {round}: {error:?}");
        }
    }
}

/// Rules E2, C6.
async fn priorities_outside_the_limits_are_refused(kit: Kit) {
    let id = kit.enqueue_one().await;
    for priority in [-1001, 1001, i32::MIN, i32::MAX] {
        refused_as(kit.backend().reprioritize(id, priority).await, ErrorKind::InvalidArgument);
    }
    for priority in [-1000, 1000] {
        kit.backend().reprioritize(id, priority).await.unwrap();
        assert_eq!(kit.job(id).await.priority, priority);
    }
}
