//! Forget: the record of one ended job, removed whatever its retention.

use turno_contract::{ErrorKind, JobId, Keep, SettingsChange, State};

use crate::Kit;
use crate::kit::{assert_done, refused_as};

super::cases! {
    Nothing: [
        the_record_goes_with_its_attempts_and_keys,
        a_job_that_has_not_ended_is_a_conflict,
    ],
}

/// Rules P7, E4.
async fn the_record_goes_with_its_attempts_and_keys(kit: Kit) {
    kit.set(SettingsChange { keep_succeeded: Some(Keep::Forever), ..Default::default() }).await;
    let new = kit.new_job().idempotency_key("i");
    let job = kit.running(new.clone()).await;
    kit.release(job.proof, None).await;
    let other = kit.enqueue_new(kit.new_job().idempotency_key("other")).await;
    let job = kit.claim_one().await;
    assert_done(&kit.complete(job.proof).await, State::Succeeded);
    kit.forget(job.proof.job).await;
    assert_eq!(kit.backend().job(job.proof.job).await.unwrap(), None);
    assert!(kit.attempts(job.proof.job).await.is_empty());
    for (table, left) in [("finished_job", 0), ("attempt", 0), ("enqueue_key", 1), ("job", 1)] {
        assert_eq!(kit.count(table, "1 = 1").await, left, "{table}");
    }
    assert!(kit.enqueue(new).await.created);
    assert_eq!(kit.enqueue(kit.new_job().idempotency_key("other")).await.id, other);
    refused_as(kit.backend().forget(job.proof.job).await, ErrorKind::NotFound);
    refused_as(kit.backend().forget(JobId(i64::MAX)).await, ErrorKind::NotFound);
}

/// Rules P7, O4.
async fn a_job_that_has_not_ended_is_a_conflict(kit: Kit) {
    let running = kit.running_one().await;
    let ready = kit.enqueue_one().await;
    let scheduled = kit.scheduled(std::time::Duration::from_secs(1000)).await;
    for id in [running.proof.job, ready, scheduled] {
        let before = kit.job(id).await;
        refused_as(kit.backend().forget(id).await, ErrorKind::Conflict);
        assert_eq!(kit.job(id).await, before);
    }
    assert!(kit.is_held(running.proof).await);
}
