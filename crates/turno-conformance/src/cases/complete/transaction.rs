//! The single form of complete, in a caller's own transaction.

use turno_contract::{
    Completion, ErrorKind, JobId, Proof, Refused, Retry, SettledStatus, State, Token, Verb,
};

use crate::Kit;
use crate::kit::{WORKER, assert_done, assert_refused, refused_as, stolen, within};

super::super::cases! {
    Nothing: [
        effects_and_completion_commit_together,
        a_rollback_takes_the_completion_back,
        a_refusal_raises_and_its_transaction_cannot_commit,
        a_settled_proof_is_told_apart_in_a_transaction,
        a_refusal_is_reported_on_another_connection,
    ],
    RowLocks: [
        a_deadlock_in_a_callers_transaction_loses_that_transaction,
        a_completion_waits_for_the_transaction_that_holds_the_job,
    ],
}

fn completion(proof: Proof, result: &str) -> Completion {
    Completion { proof, result: Some(result.to_owned()) }
}

/// Rules S5, E1.
async fn effects_and_completion_commit_together(kit: Kit) {
    let job = kit.running_one().await;
    let effects = kit.beside("effects");
    let mut transaction = kit.begin().await;
    let effect = transaction.enqueue(&effects.new_job()).await.unwrap().id;
    let settled = transaction.complete(WORKER, &completion(job.proof, "[1]")).await.unwrap();
    assert_done(&settled, State::Succeeded);
    assert_eq!(kit.state(job.proof.job).await, State::Running, "not before the commit");
    assert_eq!(kit.backend().job(effect).await.unwrap(), None);
    transaction.commit().await.unwrap();
    let record = kit.job(job.proof.job).await;
    assert_eq!((record.state, record.result.as_deref()), (State::Succeeded, Some("[1]")));
    assert_eq!(effects.claim_ids(1).await, vec![effect]);
    assert_eq!(kit.complete(job.proof).await.status, SettledStatus::Already);
}

/// Rule S5.
async fn a_rollback_takes_the_completion_back(kit: Kit) {
    let job = kit.running_one().await;
    let before = kit.job(job.proof.job).await;
    let mut transaction = kit.begin().await;
    assert_done(&transaction.complete(WORKER, &completion(job.proof, "1")).await.unwrap(), State::Succeeded);
    transaction.rollback().await.unwrap();
    assert_eq!(kit.job(job.proof.job).await, before);
    assert!(kit.is_held(job.proof).await);
    assert_done(&kit.complete(job.proof).await, State::Succeeded);
}

/// Completes in a transaction that also enqueues, insists on a refusal of this kind, tries to commit all the same, and
/// insists that nothing of the transaction is left.
async fn refused_in_transaction(kit: &Kit, proof: Proof, kind: ErrorKind) -> String {
    let effects = kit.beside("effects");
    let mut transaction = kit.begin().await;
    assert!(transaction.enqueue(&effects.new_job()).await.unwrap().created);
    let error = refused_as(transaction.complete(WORKER, &completion(proof, "1")).await, kind);
    // Whether the handle refuses to commit or the engine turns the commit into a rollback: nothing may be left.
    drop(transaction.commit().await);
    assert_eq!(effects.count("job", "1 = 1").await, 0, "an effect of a refused completion was committed");
    error.message().to_owned()
}

/// Rules S3, S5, O2.
async fn a_refusal_raises_and_its_transaction_cannot_commit(kit: Kit) {
    let job = kit.running_one().await;
    for wrong in [stolen(job.proof), Proof { attempt: 2, ..job.proof }] {
        refused_in_transaction(&kit, wrong, ErrorKind::LeaseLost).await;
    }
    let nobody = Proof { job: JobId(i64::MAX - 11), attempt: 1, token: Token::random() };
    refused_in_transaction(&kit, nobody, ErrorKind::NotFound).await;
    assert_eq!(kit.state(job.proof.job).await, State::Running);
    assert!(kit.is_held(job.proof).await);
}

/// Rules S4, S5.
async fn a_settled_proof_is_told_apart_in_a_transaction(kit: Kit) {
    let failed = kit.running_one().await;
    assert_done(&kit.fail(failed.proof, "no", Retry::Policy).await, State::Scheduled);
    let message = refused_in_transaction(&kit, failed.proof, ErrorKind::Conflict).await;
    assert!(message.contains("already settled as"), "{message}");

    let completed = kit.running_one().await;
    assert_done(&kit.complete_with(completed.proof, Some("\"first\"")).await, State::Succeeded);
    let mut transaction = kit.begin().await;
    let again = transaction.complete(WORKER, &completion(completed.proof, "\"second\"")).await.unwrap();
    assert_eq!((again.status, again.state), (SettledStatus::Already, Some(State::Succeeded)));
    transaction.commit().await.unwrap();
    assert_eq!(kit.job(completed.proof.job).await.result.as_deref(), Some("\"first\""));
}

/// Rules S5, S7.
async fn a_refusal_is_reported_on_another_connection(kit: Kit) {
    let job = kit.running_one().await;
    let wrong = stolen(job.proof);
    refused_in_transaction(&kit, wrong, ErrorKind::LeaseLost).await;
    assert!(kit.refused(job.proof.job).await.is_empty(), "the transaction could not record it");
    let refused = Refused { proof: wrong, verb: Verb::Complete, detail: Some("1".to_owned()) };
    kit.backend().refused_record("in-transaction", &refused).await.unwrap();
    let line = crate::kit::only(kit.refused(job.proof.job).await);
    assert_eq!((line.worker.as_deref(), line.verb), (Some("in-transaction"), Verb::Complete));
    assert_eq!((line.detail.as_deref(), line.state, line.times), (Some("1"), Some(State::Running), 1));
    assert_refused(&kit.complete(wrong).await, State::Running);
}

/// Rule X3.
async fn a_deadlock_in_a_callers_transaction_loses_that_transaction(kit: Kit) {
    kit.enqueue_n(2).await;
    let jobs = kit.claim_n(2).await;
    let (a, b) = (completion(jobs[0].proof, "1"), completion(jobs[1].proof, "1"));
    let (mut first, mut second) = (kit.begin().await, kit.begin().await);
    first.complete(WORKER, &a).await.unwrap();
    second.complete(WORKER, &b).await.unwrap();
    let crossing = async { tokio::join!(first.complete(WORKER, &b), second.complete(WORKER, &a)) };
    let (of_first, of_second) = within("the deadlock's end", crossing).await;
    // The victim's locks go with its transaction, so the other one went on.
    let (lost, victim, survivor) = match (of_first, of_second) {
        (Err(error), Ok(_)) => (error, first, second),
        (Ok(_), Err(error)) => (error, second, first),
        both => panic!("one transaction must be lost: {both:?}"),
    };
    assert_eq!(lost.kind(), ErrorKind::TransactionLost, "{lost:?}");
    assert!(!lost.is_transient(), "repeating only this call would lose the rest of the transaction");
    drop(victim.commit().await);
    survivor.commit().await.unwrap();
    for job in &jobs {
        assert_eq!(kit.state(job.proof.job).await, State::Succeeded);
    }
}

/// Rules S1, S5.
async fn a_completion_waits_for_the_transaction_that_holds_the_job(kit: Kit) {
    let job = kit.running_one().await;
    let mut transaction = kit.begin().await;
    assert_done(&transaction.complete(WORKER, &completion(job.proof, "1")).await.unwrap(), State::Succeeded);
    let other = kit.clone();
    let mut second = Box::pin(async move { other.complete(job.proof).await });
    crate::kit::not_yet("the second completion", &mut second).await;
    transaction.commit().await.unwrap();
    assert_eq!(within("the second completion", second).await.status, SettledStatus::Already);
}
