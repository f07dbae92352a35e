//! Held: what a token holds, for a claim whose answer was lost.

use turno_contract::{Retry, Token};

use crate::Kit;
use crate::kit::ids;

super::cases! {
    Nothing: [
        a_token_answers_the_jobs_of_its_claim,
        a_token_that_claimed_nothing_holds_nothing,
        what_was_settled_is_held_no_more,
        a_token_holds_jobs_of_several_queues,
    ],
}

/// Rule C5.
async fn a_token_answers_the_jobs_of_its_claim(kit: Kit) {
    let all = kit.enqueue_n(4).await;
    let request = kit.request(3);
    let claimed = kit.claim_with(&request).await;
    kit.claim_one().await;
    for _ in 0..2 {
        let mut held = kit.backend().held(request.token).await.unwrap();
        held.sort_by_key(|job| job.proof.job);
        assert_eq!((ids(&held), &held), (all[..3].to_vec(), &claimed));
    }
}

/// Rule C5.
async fn a_token_that_claimed_nothing_holds_nothing(kit: Kit) {
    kit.enqueue_one().await;
    assert_eq!(kit.backend().held(Token::random()).await.unwrap(), vec![]);
    let empty = kit.beside("empty").request(1);
    kit.claim_with(&empty).await;
    assert_eq!(kit.backend().held(empty.token).await.unwrap(), vec![]);
}

/// Rules C5, O3.
async fn what_was_settled_is_held_no_more(kit: Kit) {
    kit.enqueue_n(5).await;
    let request = kit.request(5);
    let jobs = kit.claim_with(&request).await;
    kit.complete(jobs[0].proof).await;
    kit.fail(jobs[1].proof, "no", Retry::Policy).await;
    kit.release(jobs[2].proof, None).await;
    kit.backend().cancel(jobs[3].proof.job, true).await.unwrap();
    let held = kit.backend().held(request.token).await.unwrap();
    assert_eq!(held, jobs[4..]);
    let again = kit.claim_one().await;
    assert_eq!(again.proof.job, jobs[2].proof.job);
    assert_eq!(kit.backend().held(request.token).await.unwrap().len(), 1, "another claim holds it now");
}

/// Rule C5.
async fn a_token_holds_jobs_of_several_queues(kit: Kit) {
    let (a, b) = (kit.beside("a"), kit.beside("b"));
    a.enqueue_one().await;
    b.enqueue_one().await;
    let mut request = kit.request(10);
    request.queues = vec![a.queue().to_owned(), b.queue().to_owned()];
    let mut claimed = kit.claim_with(&request).await;
    let mut held = kit.backend().held(request.token).await.unwrap();
    claimed.sort_by_key(|job| job.proof.job);
    held.sort_by_key(|job| job.proof.job);
    assert_eq!((claimed.len(), held), (2, claimed));
}
