//! Pause and resume: a queue that gives nothing for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use turno_contract::State;

use crate::Kit;
use crate::kit::{assert_done, ids, within};

super::cases! {
    Nothing: [
        a_paused_queue_gives_nothing_until_it_is_resumed,
        a_paused_queue_takes_jobs_and_verdicts,
        other_queues_of_a_claim_go_on,
        a_claim_that_starts_after_pause_returned_gets_nothing,
        pausing_twice_keeps_the_first_instant,
    ],
}

/// Rule P5.
async fn a_paused_queue_gives_nothing_until_it_is_resumed(kit: Kit) {
    let all = kit.enqueue_n(3).await;
    kit.backend().pause(kit.queue()).await.unwrap();
    for _ in 0..3 {
        assert_eq!(kit.claim_ids(10).await, vec![]);
    }
    assert_eq!(kit.count("job", "attempt = 0 AND state = 'ready'").await, 3);
    kit.backend().resume(kit.queue()).await.unwrap();
    assert_eq!(kit.claim_ids(10).await, all);
    kit.backend().resume(kit.queue()).await.unwrap();
    let never = kit.beside("never-paused");
    never.backend().resume(never.queue()).await.unwrap();
    never.enqueue_one().await;
    assert_eq!(never.claim_n(10).await.len(), 1);
}

/// Rules P5, O4.
async fn a_paused_queue_takes_jobs_and_verdicts(kit: Kit) {
    kit.enqueue_n(2).await;
    let jobs = kit.claim_n(2).await;
    kit.backend().pause(kit.queue()).await.unwrap();
    let id = kit.enqueue_one().await;
    assert_eq!(kit.state(id).await, State::Ready);
    assert!(kit.is_held(jobs[0].proof).await);
    assert_done(&kit.complete(jobs[0].proof).await, State::Succeeded);
    assert_done(&kit.release(jobs[1].proof, None).await, State::Ready);
    assert_eq!(kit.claim_ids(10).await, vec![]);
    kit.backend().resume(kit.queue()).await.unwrap();
    assert_eq!(kit.claim_ids(10).await, vec![jobs[1].proof.job, id]);
}

/// Rules P5, C3.
async fn other_queues_of_a_claim_go_on(kit: Kit) {
    let (a, b) = (kit.beside("a"), kit.beside("b"));
    a.enqueue_n(2).await;
    let in_b = b.enqueue_n(2).await;
    kit.backend().pause(a.queue()).await.unwrap();
    let mut request = kit.request(3);
    request.queues = vec![a.queue().to_owned(), b.queue().to_owned()];
    assert_eq!(ids(&kit.claim_with(&request).await), in_b);
}

/// Rule P5.
async fn a_claim_that_starts_after_pause_returned_gets_nothing(kit: Kit) {
    for _ in 0..5 {
        let paused = Arc::new(AtomicBool::new(false));
        let claimers: Vec<_> = (0..4)
            .map(|_| {
                let (kit, paused) = (kit.clone(), paused.clone());
                tokio::spawn(async move {
                    loop {
                        let started_after = paused.load(Ordering::SeqCst);
                        let jobs = kit.claim_n(1).await;
                        assert!(!started_after || jobs.is_empty(), "a paused queue gave {jobs:?}");
                        if started_after {
                            return;
                        }
                        kit.enqueue_one().await;
                    }
                })
            })
            .collect();
        kit.enqueue_n(20).await;
        kit.backend().pause(kit.queue()).await.unwrap();
        paused.store(true, Ordering::SeqCst);
        for claimer in claimers {
            within("a claimer", claimer).await.unwrap();
        }
        kit.backend().resume(kit.queue()).await.unwrap();
    }
}

/// Rules P5, P6.
async fn pausing_twice_keeps_the_first_instant(kit: Kit) {
    let paused_at = || {
        let kit = kit.clone();
        async move { kit.set(Default::default()).await.paused_at }
    };
    assert_eq!(paused_at().await, None);
    kit.backend().pause(kit.queue()).await.unwrap();
    let first = paused_at().await.expect("paused");
    kit.now().await;
    kit.backend().pause(kit.queue()).await.unwrap();
    assert_eq!(paused_at().await, Some(first));
    kit.backend().resume(kit.queue()).await.unwrap();
    assert_eq!(paused_at().await, None);
}
