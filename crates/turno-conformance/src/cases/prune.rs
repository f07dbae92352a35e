//! Prune: records whose time is over. These cases run alone, since prune reaches every queue.

use std::time::Duration;

use turno_contract::{
    CancelAnswer, Completion, ErrorKind, JobId, Keep, Proof, Retry, SettingsChange, SettledStatus, State,
};

use crate::Kit;
use crate::kit::{WORKER, assert_done, assert_refused, stolen};

super::cases! {
    Alone: [
        records_are_kept_by_outcome,
        a_queue_may_keep_them_for_longer_or_for_ever,
        attempts_and_keys_go_with_the_record,
        unfinished_jobs_are_never_removed,
        a_batch_is_bounded,
        the_ledger_is_kept_for_thirty_days,
        without_retention_only_a_receipt_is_kept,
        a_receipt_tells_repeats_from_theft_until_its_time_is_over,
        without_receipts_nothing_is_kept,
        many_are_completed_in_one_call_without_retention,
        a_dead_receipt_cannot_run_again,
        what_was_forgotten_is_gone_like_what_was_pruned,
    ],
}

const DAY: Duration = Duration::from_secs(24 * 3600);
const HOUR: Duration = Duration::from_secs(3600);

async fn prune_all(kit: &Kit) {
    loop {
        let pruned = kit.backend().prune(1000).await.unwrap();
        if pruned.jobs == 0 && pruned.refused == 0 {
            return;
        }
    }
}

/// One job that ended in each way.
async fn one_of_each(kit: &Kit) -> [JobId; 3] {
    let succeeded = kit.running_one().await;
    assert_done(&kit.complete(succeeded.proof).await, State::Succeeded);
    let cancelled = kit.running_one().await.proof.job;
    assert_eq!(kit.backend().cancel(cancelled, true).await.unwrap(), CancelAnswer::Cancelled);
    [succeeded.proof.job, cancelled, kit.dead_one(kit.new_job()).await.proof.job]
}

/// Which of these still have a record.
async fn kept(kit: &Kit, ids: &[JobId]) -> Vec<bool> {
    let mut kept = Vec::new();
    for id in ids {
        kept.push(kit.backend().job(*id).await.unwrap().is_some());
    }
    kept
}

/// Rule P7.
async fn records_are_kept_by_outcome(kit: Kit) {
    let ids = one_of_each(&kit).await;
    for (age, expected) in [
        (DAY - HOUR, [true, true, true]),
        (2 * HOUR, [false, true, true]),
        (6 * DAY - 2 * HOUR, [false, true, true]),
        (2 * HOUR, [false, false, true]),
        (23 * DAY - 2 * HOUR, [false, false, true]),
        (2 * HOUR, [false, false, false]),
    ] {
        kit.age(age).await;
        prune_all(&kit).await;
        assert_eq!(kept(&kit, &ids).await, expected);
    }
}

/// Rules P6, P7.
async fn a_queue_may_keep_them_for_longer_or_for_ever(kit: Kit) {
    kit.set(SettingsChange {
        keep_succeeded: Some(Keep::Forever),
        keep_cancelled: Some(Keep::For(HOUR)),
        keep_dead: Some(Keep::For(100 * DAY)),
        ..Default::default()
    })
    .await;
    let ids = one_of_each(&kit).await;
    for (age, expected) in [
        (HOUR - Duration::from_secs(600), [true, true, true]),
        (HOUR, [true, false, true]),
        (98 * DAY, [true, false, true]),
        (3 * DAY, [true, false, false]),
        (10_000 * DAY, [true, false, false]),
    ] {
        kit.age(age).await;
        prune_all(&kit).await;
        assert_eq!(kept(&kit, &ids).await, expected);
    }
    kit.forget(ids[0]).await;
}

/// Rules P7, E4.
async fn attempts_and_keys_go_with_the_record(kit: Kit) {
    let new = kit.new_job().idempotency_key("i").unique_key("u");
    let job = kit.running(new.clone()).await;
    kit.release(job.proof, None).await;
    let job = kit.claim_one().await;
    kit.complete(job.proof).await;
    assert_eq!((kit.count("attempt", "1 = 1").await, kit.count("enqueue_key", "1 = 1").await), (1, 1));
    kit.age(2 * DAY).await;
    assert!(!kit.enqueue(new.clone()).await.created, "nobody has pruned it yet");
    prune_all(&kit).await;
    assert_eq!(kept(&kit, &[job.proof.job]).await, [false]);
    assert_eq!((kit.count("attempt", "1 = 1").await, kit.count("enqueue_key", "1 = 1").await), (0, 0));
    assert!(kit.attempts(job.proof.job).await.is_empty());
    assert!(kit.enqueue(new).await.created);
}

/// Rule P7.
async fn unfinished_jobs_are_never_removed(kit: Kit) {
    let running = kit.running(kit.new_job().idempotency_key("i")).await.proof.job;
    let ready = kit.enqueue_one().await;
    kit.age(20_000 * DAY).await;
    let scheduled = kit.scheduled(DAY).await;
    prune_all(&kit).await;
    let ids = [running, ready, scheduled];
    assert_eq!(kept(&kit, &ids).await, [true, true, true]);
    assert!(!kit.enqueue(kit.new_job().idempotency_key("i")).await.created);
    for id in ids {
        kit.backend().cancel(id, true).await.unwrap();
    }
}

/// Rule P7. B61.
async fn a_batch_is_bounded(kit: Kit) {
    prune_all(&kit).await;
    kit.enqueue_n(5).await;
    for job in kit.claim_n(5).await {
        kit.complete(job.proof).await;
    }
    kit.age(2 * DAY).await;
    for expected in [2, 2, 1, 0] {
        assert_eq!(kit.backend().prune(2).await.unwrap().jobs, expected);
    }
}

/// Rule S7.
async fn the_ledger_is_kept_for_thirty_days(kit: Kit) {
    kit.set(SettingsChange { keep_succeeded: Some(Keep::Forever), ..Default::default() }).await;
    prune_all(&kit).await;
    let job = kit.running_one().await;
    assert_refused(&kit.complete(stolen(job.proof)).await, State::Running);
    kit.complete(job.proof).await;
    kit.age(30 * DAY - HOUR).await;
    assert_eq!(kit.backend().prune(1000).await.unwrap().refused, 0);
    assert_eq!(kit.refused(job.proof.job).await.len(), 1);
    kit.age(2 * HOUR).await;
    let pruned = kit.backend().prune(1000).await.unwrap();
    assert_eq!((pruned.jobs, pruned.refused), (0, 1));
    assert!(kit.refused(job.proof.job).await.is_empty());
    kit.forget(job.proof.job).await;
}

/// Rules P8, E4.
async fn without_retention_only_a_receipt_is_kept(kit: Kit) {
    let none = Some(Keep::For(Duration::ZERO));
    kit.set(SettingsChange {
        keep_succeeded: none,
        keep_cancelled: none,
        keep_dead: none,
        ..Default::default()
    })
    .await;
    let new = kit.new_job().idempotency_key("i");
    let job = kit.running(new.clone()).await;
    assert_done(&kit.complete_with(job.proof, Some("[\"result\"]")).await, State::Succeeded);
    let receipt = kit.job(job.proof.job).await;
    assert_eq!((receipt.state, receipt.payload, receipt.result), (State::Succeeded, None, None));
    assert_eq!((receipt.attempt, receipt.operation_id), (1, job.operation_id));
    assert_eq!(kit.enqueue(new).await.id, job.proof.job, "the idempotency key is kept with it");

    for end in [State::Dead, State::Cancelled] {
        let job = kit.running_one().await;
        if end == State::Dead {
            assert_done(&kit.fail(job.proof, "no", Retry::Never).await, end);
        } else {
            kit.backend().cancel(job.proof.job, true).await.unwrap();
        }
        let receipt = kit.job(job.proof.job).await;
        assert_eq!((receipt.state, receipt.payload), (end, None));
    }
}

/// Rules P8, S4, S6.
async fn a_receipt_tells_repeats_from_theft_until_its_time_is_over(kit: Kit) {
    kit.set(SettingsChange { keep_succeeded: Some(Keep::For(Duration::ZERO)), ..Default::default() }).await;
    let job = kit.running_one().await;
    assert_done(&kit.complete(job.proof).await, State::Succeeded);
    for age in [Duration::ZERO, Duration::from_secs(3000)] {
        kit.age(age).await;
        prune_all(&kit).await;
        let again = kit.complete(job.proof).await;
        assert_eq!((again.status, again.state), (SettledStatus::Already, Some(State::Succeeded)));
        assert_refused(&kit.complete(stolen(job.proof)).await, State::Succeeded);
        assert_refused(&kit.fail(job.proof, "no", Retry::Never).await, State::Succeeded);
    }
    kit.age(Duration::from_secs(700)).await;
    prune_all(&kit).await;
    assert_eq!(kept(&kit, &[job.proof.job]).await, [false]);
    assert_eq!(kit.complete(job.proof).await.status, SettledStatus::Gone);
}

/// Turns records and receipts off.
async fn keep_nothing(kit: &Kit) {
    let none = Some(Keep::For(Duration::ZERO));
    kit.set(SettingsChange {
        keep_succeeded: none,
        keep_cancelled: none,
        keep_dead: none,
        receipts: Some(Duration::ZERO),
        ..Default::default()
    })
    .await;
}

/// Rules P8, S6.
async fn without_receipts_nothing_is_kept(kit: Kit) {
    keep_nothing(&kit).await;
    let new = kit.new_job().idempotency_key("i").unique_key("u");
    let job = kit.running(new.clone()).await;
    kit.release(job.proof, None).await;
    let job = kit.claim_one().await;
    assert_done(&kit.complete(job.proof).await, State::Succeeded);
    for table in ["job", "finished_job", "attempt", "enqueue_key"] {
        assert_eq!(kit.count(table, "1 = 1").await, 0, "{table}");
    }
    assert_eq!(kept(&kit, &[job.proof.job]).await, [false]);
    let again = kit.complete(job.proof).await;
    assert_eq!((again.status, again.state), (SettledStatus::Gone, None));
    let next = kit.running(new).await;
    assert!(next.proof.job > job.proof.job);
    assert_done(&kit.fail(next.proof, "no", Retry::Never).await, State::Dead);
    assert_eq!(kept(&kit, &[next.proof.job]).await, [false]);
}

/// Rules P8, S4.
async fn many_are_completed_in_one_call_without_retention(kit: Kit) {
    let receipts = kit.beside("receipts");
    receipts
        .set(SettingsChange { keep_succeeded: Some(Keep::For(Duration::ZERO)), ..Default::default() })
        .await;
    let nothing = kit.beside("nothing");
    keep_nothing(&nothing).await;
    let mut proofs: Vec<Proof> = Vec::new();
    for kit in [&kit, &receipts, &nothing] {
        kit.enqueue_n(50).await;
        proofs.extend(kit.claim_n(50).await.into_iter().map(|job| job.proof));
    }
    proofs.rotate_left(77);
    let calls: Vec<Completion> =
        proofs.iter().map(|proof| Completion { proof: *proof, result: None }).collect();
    let answers = kit.backend().complete(WORKER, &calls).await.unwrap();
    assert!(
        answers
            .iter()
            .all(|answer| (answer.status, answer.state) == (SettledStatus::Done, Some(State::Succeeded)))
    );
    for (kit, finished, with_payload) in [(&kit, 50, 50), (&receipts, 50, 0), (&nothing, 0, 0)] {
        assert_eq!(kit.count("job", "1 = 1").await, 0);
        assert_eq!(kit.count("finished_job", "1 = 1").await, finished);
        assert_eq!(kit.count("finished_job", "payload IS NOT NULL").await, with_payload);
    }
}

/// Rules P3, P8: there is no payload to run it with.
async fn a_dead_receipt_cannot_run_again(kit: Kit) {
    kit.set(SettingsChange { keep_dead: Some(Keep::For(Duration::ZERO)), ..Default::default() }).await;
    let id = kit.dead_one(kit.new_job()).await.proof.job;
    let error = kit.backend().retry(id).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound), "{error:?}");
    assert_eq!(kit.state(id).await, State::Dead);
    assert_eq!(kit.claim_ids(1).await, vec![]);
}

/// Rules P7, S6.
async fn what_was_forgotten_is_gone_like_what_was_pruned(kit: Kit) {
    let (forgotten, pruned) = (kit.running_one().await.proof, kit.running_one().await.proof);
    assert_done(&kit.complete(forgotten).await, State::Succeeded);
    assert_done(&kit.complete(pruned).await, State::Succeeded);
    kit.forget(forgotten.job).await;
    kit.age(2 * DAY).await;
    prune_all(&kit).await;
    let answers = [kit.complete(forgotten).await, kit.complete(pruned).await];
    assert_eq!(answers[0].status, SettledStatus::Gone);
    assert_eq!(answers[0], answers[1]);
}
