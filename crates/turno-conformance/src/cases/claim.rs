//! Claim: who gets which job, and in what order.

use crate::Kit;

super::cases! {
    Nothing: [an_empty_queue_answers_nothing, a_job_is_given_to_one_claim_only],
}

/// Rule C1.
async fn an_empty_queue_answers_nothing(kit: Kit) {
    assert_eq!(kit.claim_n(10).await, vec![]);
}

/// Rule C1.
async fn a_job_is_given_to_one_claim_only(kit: Kit) {
    let id = kit.enqueue_one().await;
    let first = kit.claim_n(10).await;
    assert_eq!(first.iter().map(|job| job.proof.job).collect::<Vec<_>>(), vec![id]);
    assert_eq!(kit.claim_n(10).await, vec![]);
}
