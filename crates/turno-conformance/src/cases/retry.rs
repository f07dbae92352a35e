//! Retry: a dead job runs again.

use std::time::Duration;

use turno_contract::{CancelAnswer, ErrorKind, JobId, Retry, SettledStatus, State, Verb};

use crate::Kit;
use crate::kit::{assert_done, assert_near, assert_refused, refused_as};

super::cases! {
    Nothing: [
        a_dead_job_starts_anew_and_keeps_its_identity,
        only_a_dead_job_can_be_retried,
        a_taken_unique_key_is_a_conflict_that_names_its_holder,
        a_retried_job_has_its_unique_key_again,
        proofs_from_before_the_retry_stay_worthless,
        retries_at_once_have_one_winner,
        whoever_asks_during_a_retry_finds_the_job,
    ],
}

/// Rules P3, S4, X1, E4, F7.
async fn a_dead_job_starts_anew_and_keeps_its_identity(kit: Kit) {
    let new = kit.new_job().max_attempts(2).priority(3).idempotency_key("i");
    let id = kit.enqueue_new(new.clone()).await;
    let job = kit.claim_one().await;
    kit.fail(job.proof, "first", Retry::In(Duration::from_secs(1))).await;
    kit.age(Duration::from_secs(3600)).await;
    kit.promote().await;
    let job = kit.claim_one().await;
    assert_done(&kit.fail(job.proof, "second", Retry::Policy).await, State::Dead);
    kit.age(Duration::from_secs(3600)).await;
    kit.backend().retry(id).await.unwrap();
    let repeated = kit.fail(job.proof, "second", Retry::Policy).await;
    let answer = (repeated.status, repeated.state, repeated.run_at);
    assert_eq!(answer, (SettledStatus::Already, Some(State::Dead), None), "as it was answered then");
    let record = kit.job(id).await;
    assert_eq!((record.state, record.failures, record.attempt), (State::Ready, 0, 2));
    assert_eq!((record.max_attempts, record.priority), (2, 3));
    assert_eq!((record.operation_id, record.payload.as_deref()), (job.operation_id, Some("{}")));
    assert_eq!((record.finished_at, record.lease_until), (None, None));
    assert_near(record.run_at, kit.now().await, Duration::from_secs(60));
    let verbs: Vec<_> =
        kit.attempts(id).await.into_iter().map(|a| (a.attempt, a.verb, a.error.unwrap())).collect();
    assert_eq!(verbs, [(1, Verb::Fail, "first".to_owned()), (2, Verb::Fail, "second".to_owned())]);
    assert_eq!(kit.enqueue(new).await.id, id, "its idempotency key still stands for it");
    let again = kit.claim_one().await;
    assert_eq!((again.proof.job, again.proof.attempt, again.failures), (id, 3, 0));
    assert_eq!(again.operation_id, job.operation_id);
    kit.fail(again.proof, "third", Retry::In(Duration::from_secs(1))).await;
    assert_eq!(kit.state(id).await, State::Scheduled, "it has a full budget again");
    assert_eq!(kit.count("finished_job", "1 = 1").await, 0);
}

/// Rule P3.
async fn only_a_dead_job_can_be_retried(kit: Kit) {
    let conflict = |id: JobId| {
        let kit = kit.clone();
        async move {
            let before = kit.job(id).await;
            refused_as(kit.backend().retry(id).await, ErrorKind::Conflict);
            assert_eq!(kit.job(id).await, before);
        }
    };
    conflict(kit.scheduled(Duration::from_secs(1000)).await).await;
    let job = kit.running_one().await;
    conflict(job.proof.job).await;
    assert!(kit.is_held(job.proof).await);
    kit.complete(job.proof).await;
    conflict(job.proof.job).await;
    let ready = kit.enqueue_one().await;
    conflict(ready).await;
    kit.backend().cancel(ready, false).await.unwrap();
    conflict(ready).await;
    for id in [JobId(0), JobId(i64::MAX)] {
        refused_as(kit.backend().retry(id).await, ErrorKind::NotFound);
    }
}

/// Rules P3, E5.
async fn a_taken_unique_key_is_a_conflict_that_names_its_holder(kit: Kit) {
    let dead = kit.dead_one(kit.new_job().unique_key("u")).await.proof.job;
    let holder = kit.enqueue_new(kit.new_job().unique_key("u")).await;
    let error = refused_as(kit.backend().retry(dead).await, ErrorKind::Conflict);
    assert!(error.message().contains(&holder.to_string()), "{error} does not name job {holder}");
    assert_eq!((kit.state(dead).await, kit.state(holder).await), (State::Dead, State::Ready));
    let job = kit.claim_one().await;
    assert_eq!(job.proof.job, holder);
    kit.complete(job.proof).await;
    kit.backend().retry(dead).await.unwrap();
    assert_eq!(kit.claim_ids(10).await, vec![dead]);
}

/// Rules P3, E5.
async fn a_retried_job_has_its_unique_key_again(kit: Kit) {
    let new = kit.new_job().unique_key("u");
    let dead = kit.dead_one(new.clone()).await.proof.job;
    kit.backend().retry(dead).await.unwrap();
    let found = kit.enqueue(new).await;
    assert_eq!((found.id, found.created), (dead, false));
}

/// Rules P3, O2, S4.
async fn proofs_from_before_the_retry_stay_worthless(kit: Kit) {
    let old = kit.dead_one(kit.new_job()).await;
    let id = old.proof.job;
    kit.backend().retry(id).await.unwrap();
    let again = kit.fail(old.proof, "again", Retry::Policy).await;
    assert_eq!(
        (again.status, again.state),
        (SettledStatus::Already, Some(State::Dead)),
        "the recorded answer"
    );
    assert_refused(&kit.complete(old.proof).await, State::Ready);
    let job = kit.claim_one().await;
    assert_refused(&kit.complete(old.proof).await, State::Running);
    assert_done(&kit.complete(job.proof).await, State::Succeeded);
}

/// Rule P3.
async fn retries_at_once_have_one_winner(kit: Kit) {
    for _ in 0..10 {
        let id = kit.dead_one(kit.new_job()).await.proof.job;
        let tries = (0..4).map(|_| {
            let backend = kit.backend_shared();
            tokio::spawn(async move { backend.retry(id).await })
        });
        let answers = futures_util::future::join_all(tries).await;
        let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().map(Result::unwrap).partition(Result::is_ok);
        assert_eq!(won.len(), 1);
        assert!(lost.into_iter().all(|answer| answer.unwrap_err().kind() == ErrorKind::Conflict));
        let job = kit.claim_one().await;
        assert_eq!(job.proof.job, id);
        kit.complete(job.proof).await;
    }
}

/// Rules P1, P3, S6: the job moves from one table to the other, and is never in none of them.
async fn whoever_asks_during_a_retry_finds_the_job(kit: Kit) {
    for round in 0..40 {
        let old = kit.dead_one(kit.new_job()).await.proof;
        let id = old.job;
        let (backend, other) = (kit.backend_shared(), kit.clone());
        let retry = tokio::spawn(async move { backend.retry(id).await });
        let late = tokio::spawn(async move { other.complete(old).await });
        let other = kit.clone();
        let record = tokio::spawn(async move { other.job(id).await.state });
        let backend = kit.backend_shared();
        let cancel = tokio::spawn(async move { backend.cancel(id, false).await });
        let (retry, cancel) = (retry.await.unwrap(), cancel.await.unwrap());
        retry.unwrap_or_else(|error| panic!("round {round}: {error:?}"));
        let cancel = cancel.unwrap_or_else(|error| panic!("round {round}: {error:?}"));
        let end = if cancel == CancelAnswer::Cancelled { State::Cancelled } else { State::Ready };
        assert!(matches!(cancel, CancelAnswer::Cancelled | CancelAnswer::TooLate(State::Dead)), "{cancel:?}");
        assert_eq!(late.await.unwrap().status, SettledStatus::Refused, "round {round}");
        record.await.unwrap();
        assert_eq!(kit.state(id).await, end);
        kit.backend().cancel(id, false).await.unwrap();
    }
}
