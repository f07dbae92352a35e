//! The history of one job's attempts.

use std::time::Duration;

use turno_contract::{Retry, State, Verb};

use crate::Kit;
use crate::kit::assert_done;

super::cases! {
    Nothing: [
        they_stand_in_order_and_end_with_the_last,
        a_running_attempt_is_not_among_them,
        a_retry_adds_to_the_history,
    ],
}

/// Rule F7.
async fn they_stand_in_order_and_end_with_the_last(kit: Kit) {
    let id = kit.enqueue_one().await;
    for n in 1..=12 {
        let job = kit.claim_one().await;
        if n % 3 == 0 {
            kit.fail(job.proof, &n.to_string(), Retry::In(Duration::ZERO)).await;
            kit.promote().await;
        } else {
            kit.release(job.proof, None).await;
        }
    }
    let job = kit.claim_one().await;
    assert_done(&kit.complete(job.proof).await, State::Succeeded);
    let attempts = kit.attempts(id).await;
    assert_eq!(
        attempts.iter().map(|attempt| attempt.attempt).collect::<Vec<_>>(),
        (1..=13).collect::<Vec<_>>()
    );
    for attempt in &attempts {
        let expected = match attempt.attempt {
            13 => (Verb::Complete, None),
            n if n % 3 == 0 => (Verb::Fail, Some(n.to_string())),
            _ => (Verb::Release, None),
        };
        assert_eq!((attempt.verb, attempt.error.clone()), expected);
        assert_eq!(attempt.charged, attempt.verb == Verb::Fail);
    }
    assert!(attempts.windows(2).all(|pair| pair[0].ended_at <= pair[1].claimed_at));
}

/// Rule F7.
async fn a_running_attempt_is_not_among_them(kit: Kit) {
    let job = kit.running_one().await;
    assert_eq!(kit.attempts(job.proof.job).await, vec![]);
    kit.release(job.proof, None).await;
    kit.claim_one().await;
    assert_eq!(kit.attempts(job.proof.job).await.len(), 1);
}

/// Rules F7, P3.
async fn a_retry_adds_to_the_history(kit: Kit) {
    let job = kit.dead_one(kit.new_job().max_attempts(1)).await;
    let dead = kit.attempts(job.proof.job).await;
    kit.backend().retry(job.proof.job).await.unwrap();
    assert_eq!(kit.attempts(job.proof.job).await, dead, "its last attempt is not lost with its dead record");
    let again = kit.claim_one().await;
    kit.complete(again.proof).await;
    let attempts = kit.attempts(job.proof.job).await;
    assert_eq!((attempts.len(), &attempts[0]), (2, &dead[0]));
    assert_eq!((attempts[1].attempt, attempts[1].verb), (2, Verb::Complete));
}
