//! The trace that an enqueue belongs to: it travels with the job, and it never makes anything fail.

use std::time::Duration;

use turno_contract::{JobId, NewJob, Retry, State};

use crate::Kit;
use crate::kit::{KIND, assert_done, only};

super::super::cases! {
    Nothing: [
        a_traceparent_is_shown_to_every_attempt_and_kept_in_the_record,
        a_retried_dead_job_goes_on_in_its_trace,
        a_job_that_nobody_claimed_keeps_its_trace_when_it_ends,
        every_row_of_a_call_has_its_own_trace,
        a_job_that_a_key_found_keeps_the_trace_of_the_first,
        a_malformed_traceparent_is_dropped_and_the_job_is_enqueued,
        any_text_in_its_place_is_claimed_like_any_other,
    ],
    Alone: [an_expired_lease_keeps_the_trace],
}

const SPAN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const OTHER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

/// Rule E12.
async fn a_traceparent_is_shown_to_every_attempt_and_kept_in_the_record(kit: Kit) {
    let id = kit.enqueue_new(kit.new_job().traceparent(SPAN)).await;
    assert_eq!(traced(&kit, id).await.as_deref(), Some(SPAN));
    for attempt in 1..=3 {
        let request = kit.request(1);
        let job = only(kit.claim_with(&request).await);
        assert_eq!((job.proof.attempt, job.traceparent.as_deref()), (attempt, Some(SPAN)));
        assert_eq!(only(kit.backend().held(request.token).await.unwrap()), job);
        let repeated = only(kit.claim_with(&request).await);
        assert_eq!(repeated, job, "a claim that is made again");
        match attempt {
            1 => assert_done(&kit.fail(job.proof, "no", Retry::In(Duration::ZERO)).await, State::Ready),
            2 => assert_done(&kit.release(job.proof, None).await, State::Ready),
            _ => assert_done(&kit.complete(job.proof).await, State::Succeeded),
        }
    }
    assert_eq!(traced(&kit, id).await.as_deref(), Some(SPAN));
}

/// Rules E12, P3.
async fn a_retried_dead_job_goes_on_in_its_trace(kit: Kit) {
    let dead = kit.dead_one(kit.new_job().traceparent(SPAN)).await;
    assert_eq!(traced(&kit, dead.proof.job).await.as_deref(), Some(SPAN));
    kit.backend().retry(dead.proof.job).await.unwrap();
    assert_eq!(kit.claim_one().await.traceparent.as_deref(), Some(SPAN));
}

/// Rules E12, P1.
async fn a_job_that_nobody_claimed_keeps_its_trace_when_it_ends(kit: Kit) {
    let id = kit.enqueue_new(kit.new_job().traceparent(SPAN)).await;
    kit.backend().cancel(id, false).await.unwrap();
    assert_eq!(kit.state(id).await, State::Cancelled);
    assert_eq!(traced(&kit, id).await.as_deref(), Some(SPAN));
}

/// Rules E12, R2.
async fn an_expired_lease_keeps_the_trace(kit: Kit) {
    kit.running(kit.new_job().traceparent(SPAN)).await;
    kit.expire().await;
    assert_eq!(kit.reap_all().await.len(), 1);
    kit.age(Duration::from_secs(7200)).await;
    assert_eq!(kit.claim_one().await.traceparent.as_deref(), Some(SPAN));
}

/// Rules E12, E7: with and without keys, with and without a priority, and in a caller's transaction.
async fn every_row_of_a_call_has_its_own_trace(kit: Kit) {
    let plain = kit.new_job();
    let rows = [
        plain.clone().traceparent(SPAN),
        plain.clone(),
        plain.clone().traceparent(OTHER).unique_key("u"),
        plain.clone().idempotency_key("i"),
        plain.clone().traceparent(SPAN).idempotency_key("j").unique_key("v"),
        plain.clone().traceparent("garbage"),
    ];
    let expected = [Some(SPAN), None, Some(OTHER), None, Some(SPAN), None];
    for prioritized in [false, true] {
        let kit = kit.beside(if prioritized { "prioritized" } else { "plain" });
        let there = |job: &NewJob| NewJob { queue: kit.queue().to_owned(), ..job.clone() };
        let jobs: Vec<NewJob> = match prioritized {
            true => rows.iter().map(|job| there(job).priority(1)).collect(),
            false => rows.iter().map(there).collect(),
        };
        let answers = kit.backend().enqueue(&jobs).await.unwrap();
        for (answer, expected) in answers.iter().zip(expected) {
            assert!(answer.created);
            assert_eq!(traced(&kit, answer.id).await.as_deref(), expected);
        }
    }
    let mut transaction = kit.begin().await;
    let ids = [
        transaction.enqueue(&plain.clone().traceparent(SPAN)).await.unwrap().id,
        transaction.enqueue(&plain.clone().priority(7).traceparent(OTHER)).await.unwrap().id,
        transaction.enqueue(&plain).await.unwrap().id,
    ];
    transaction.commit().await.unwrap();
    for (id, expected) in ids.into_iter().zip([Some(SPAN), Some(OTHER), None]) {
        assert_eq!(traced(&kit, id).await.as_deref(), expected);
    }
}

/// Rules E12, E4, E5: what came second did not cause the job.
async fn a_job_that_a_key_found_keeps_the_trace_of_the_first(kit: Kit) {
    let job = kit.new_job().unique_key("u").idempotency_key("i");
    let id = kit.enqueue_new(job.clone().traceparent(SPAN)).await;
    for second in [job.clone().traceparent(OTHER), kit.new_job().unique_key("u").traceparent(OTHER)] {
        let answer = kit.enqueue(second).await;
        assert_eq!((answer.id, answer.created), (id, false));
    }
    assert_eq!(traced(&kit, id).await.as_deref(), Some(SPAN));
}

/// Rule E12.
async fn a_malformed_traceparent_is_dropped_and_the_job_is_enqueued(kit: Kit) {
    let malformed = [
        "",
        "\0",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0é",
        "00-0AF7651916CD43DD8448EB211C80319C-B7AD6B7169203331-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-the-future-brings",
        &"x".repeat(1 << 20),
    ];
    for text in malformed {
        let id = kit.enqueue_new(NewJob::new(kit.queue(), KIND, "1").traceparent(text)).await;
        assert_eq!(traced(&kit, id).await, None, "{text:.60}");
    }
    assert_eq!(kit.claim_n(100).await.len(), malformed.len());
}

/// Rules E12, C6: no constraint tests more than the length, and nobody may rely on more.
async fn any_text_in_its_place_is_claimed_like_any_other(kit: Kit) {
    let ids = kit.enqueue_n(3).await;
    let text = "x".repeat(55);
    kit.update_job(ids[1], &format!("traceparent = '{text}'")).await.unwrap();
    let jobs = kit.claim_n(3).await;
    assert_eq!(jobs.iter().map(|job| job.proof.job).collect::<Vec<_>>(), ids);
    assert_eq!(jobs[1].traceparent.as_deref(), Some(text.as_str()));
    let refused = kit.update_job(ids[0], &format!("traceparent = '{}'", "x".repeat(56))).await;
    refused.expect_err("longer than the limit");
}

async fn traced(kit: &Kit, id: JobId) -> Option<String> {
    kit.job(id).await.traceparent
}
