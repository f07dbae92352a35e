//! Promote: scheduled jobs that have come due.

use std::time::Duration;

use futures_util::future::join_all;
use turno_contract::State;

use crate::Kit;
use crate::kit::within;

super::cases! {
    Nothing: [
        exactly_the_due_jobs_become_ready,
        only_the_named_queues_are_looked_at,
        a_batch_is_bounded,
        promoters_at_once_make_each_job_ready_once,
    ],
    Alone: [without_names_every_queue_is_looked_at],
    RowLocks: [a_job_that_somebody_holds_delays_no_other],
}

/// Schedules `n` jobs and lets them come due.
async fn due(kit: &Kit, n: usize) -> Vec<turno_contract::JobId> {
    let run_at = kit.now().await + Duration::from_secs(1000);
    let answers = kit.backend().enqueue(&vec![kit.new_job().run_at(run_at); n]).await.unwrap();
    kit.age(Duration::from_secs(1100)).await;
    answers.into_iter().map(|answer| answer.id).collect()
}

/// Rules C3, T1.
async fn exactly_the_due_jobs_become_ready(kit: Kit) {
    let due = due(&kit, 3).await;
    let later = kit.scheduled(Duration::from_secs(1000)).await;
    let run_at = kit.job(due[0]).await.run_at;
    assert_eq!(kit.state(due[0]).await, State::Scheduled);
    assert_eq!(kit.promote().await, 3);
    assert_eq!(kit.promote().await, 0);
    for id in &due {
        let job = kit.job(*id).await;
        assert_eq!((job.state, job.run_at, job.attempt), (State::Ready, run_at, 0));
    }
    assert_eq!(kit.state(later).await, State::Scheduled);
    assert_eq!(kit.claim_ids(10).await, due);
}

/// Rule C3.
async fn only_the_named_queues_are_looked_at(kit: Kit) {
    let (a, b, c) = (kit.beside("a"), kit.beside("b"), kit.beside("c"));
    for kit in [&a, &b, &c] {
        due(kit, 2).await;
    }
    let names = [a.queue().to_owned(), c.queue().to_owned()];
    assert_eq!(kit.backend().promote(&names, 1000).await.unwrap(), 4);
    assert_eq!(b.count("job", "state = 'scheduled'").await, 2);
}

/// Rule C3.
async fn without_names_every_queue_is_looked_at(kit: Kit) {
    let due = due(&kit, 2).await;
    while kit.backend().promote(&[], 1000).await.unwrap() > 0 {}
    for id in due {
        assert_eq!(kit.state(id).await, State::Ready);
    }
}

/// Rule R1: as bounded as the reaper.
async fn a_batch_is_bounded(kit: Kit) {
    let due = due(&kit, 5).await;
    let names = [kit.queue().to_owned()];
    for expected in [2, 2, 1, 0] {
        assert_eq!(kit.backend().promote(&names, 2).await.unwrap(), expected);
    }
    assert_eq!(kit.claim_ids(10).await, due);
}

/// Rule C1.
async fn promoters_at_once_make_each_job_ready_once(kit: Kit) {
    let due = due(&kit, 300).await;
    let promoters = (0..4).map(|_| {
        let kit = kit.clone();
        tokio::spawn(async move { kit.promote().await })
    });
    let promoted: u64 =
        within("four promoters", join_all(promoters)).await.into_iter().map(Result::unwrap).sum();
    assert_eq!(promoted + kit.promote().await, 300);
    assert_eq!(kit.claim_ids(1000).await, due);
}

/// Rule H2.
async fn a_job_that_somebody_holds_delays_no_other(kit: Kit) {
    let due = due(&kit, 3).await;
    let mut transaction = kit.begin().await;
    transaction.lock(due[0]).await.unwrap();
    assert_eq!(within("a promoter", kit.promote()).await, 2);
    transaction.rollback().await.unwrap();
    assert_eq!(kit.promote().await, 1);
}
