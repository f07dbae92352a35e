//! Unhandled: kinds that workers give back again and again are named.

use std::time::Duration;

use turno_contract::{ErrorKind, NewJob, Retry};

use crate::Kit;
use crate::kit::{only, refused_as};

super::cases! {
    Nothing: [
        a_job_given_back_three_times_in_a_row_names_its_kind,
        a_kind_that_fails_or_succeeds_is_handled,
        a_bad_name_of_a_queue_is_refused,
    ],
}

const LATER: Option<Duration> = Some(Duration::from_secs(60));

/// Claims the only job, gives it back, and makes it due again.
async fn give_back(kit: &Kit) {
    let job = kit.claim_one().await;
    kit.release(job.proof, LATER).await;
    kit.age(Duration::from_secs(61)).await;
}

/// Rule V4.
async fn a_job_given_back_three_times_in_a_row_names_its_kind(kit: Kit) {
    let id = kit.enqueue_new(NewJob { kind: "nobody's".into(), ..kit.new_job() }).await;
    for round in 0..3 {
        assert_eq!(kit.backend().unhandled(kit.queue()).await.unwrap(), vec![], "after {round} rounds");
        give_back(&kit).await;
    }
    let found = only(kit.backend().unhandled(kit.queue()).await.unwrap());
    assert_eq!((found.kind.as_str(), found.queue.as_str()), ("nobody's", kit.queue()));
    assert_eq!((found.jobs.n, found.jobs.capped, found.example), (1, false, id));
    assert_eq!(kit.backend().unhandled(kit.beside("other").queue()).await.unwrap(), vec![]);
    kit.backend().cancel(id, false).await.unwrap();
    assert_eq!(kit.backend().unhandled(kit.queue()).await.unwrap(), vec![]);
}

/// Rule V4.
async fn a_kind_that_fails_or_succeeds_is_handled(kit: Kit) {
    kit.enqueue_one().await;
    give_back(&kit).await;
    give_back(&kit).await;
    let job = kit.claim_one().await;
    kit.fail(job.proof, "no", Retry::In(Duration::from_secs(60))).await;
    kit.age(Duration::from_secs(61)).await;
    give_back(&kit).await;
    give_back(&kit).await;
    assert_eq!(kit.backend().unhandled(kit.queue()).await.unwrap(), vec![], "a failure in between");
    give_back(&kit).await;
    assert_eq!(kit.backend().unhandled(kit.queue()).await.unwrap().len(), 1);
    // Another job of the kind comes first, and succeeds.
    let id = kit.enqueue_new(kit.new_job().priority(-1)).await;
    let job = kit.claim_one().await;
    assert_eq!(job.proof.job, id);
    kit.complete(job.proof).await;
    assert_eq!(kit.backend().unhandled(kit.queue()).await.unwrap(), vec![], "a handler knows it");
}

/// Rule E8.
async fn a_bad_name_of_a_queue_is_refused(kit: Kit) {
    for name in ["", "a\nb", &"q".repeat(201)] {
        refused_as(kit.backend().unhandled(name).await, ErrorKind::InvalidArgument);
    }
}
