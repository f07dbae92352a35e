//! Many jobs in one call: all or none, answered in the order of the input.

use std::collections::HashMap;

use turno_contract::{ErrorKind, JobFilter, JobId, NewJob, State, limits};

use crate::Kit;
use crate::kit::{KIND, refused_as};

super::super::cases! {
    Nothing: [
        none_is_as_good_as_no_call,
        answers_stand_in_input_order_around_every_statement_limit,
        eleven_thousand_rows_are_answered_in_input_order,
        sixty_five_thousand_rows_are_answered_in_input_order,
        more_rows_than_the_limit_are_refused,
        rows_of_several_queues_share_a_call,
    ],
}

/// Rule E7.
async fn none_is_as_good_as_no_call(kit: Kit) {
    assert_eq!(kit.backend().enqueue(&[]).await.unwrap(), vec![]);
}

/// Rule E7. B61.
async fn answers_stand_in_input_order_around_every_statement_limit(kit: Kit) {
    for n in [1, 2, 699, 700, 999, 1000, 1001, 2100] {
        enqueue_numbered(&kit.beside(&n.to_string()), n).await;
    }
}

/// Rule E7. B61: six parameters a row reach the 65,535 of one engine.
async fn eleven_thousand_rows_are_answered_in_input_order(kit: Kit) {
    enqueue_numbered(&kit, 10_922).await;
}

/// Rule E7. B61.
async fn sixty_five_thousand_rows_are_answered_in_input_order(kit: Kit) {
    enqueue_numbered(&kit, 65_536).await;
}

/// Enqueues `n` jobs whose payload is their number, every third with a key whose order is not the input's, and reads
/// all of them back.
async fn enqueue_numbered(kit: &Kit, n: usize) {
    let jobs: Vec<NewJob> = (0..n)
        .map(|number| {
            let job = NewJob::new(kit.queue(), KIND, number.to_string());
            match number % 6 {
                0 => job.unique_key(format!("u{}", number.wrapping_mul(2_654_435_761) % 1_000_003)),
                3 => job.idempotency_key(format!("i{}", number.wrapping_mul(2_654_435_761) % 1_000_003)),
                _ => job,
            }
        })
        .collect();
    let answers = kit.backend().enqueue(&jobs).await.unwrap();
    assert_eq!(answers.len(), n);
    let payloads = payload_of_each(kit).await;
    assert_eq!(payloads.len(), n);
    for (number, answer) in answers.iter().enumerate() {
        assert!(answer.created, "row {number}");
        assert_eq!(payloads.get(&answer.id), Some(&number.to_string()), "row {number}");
    }
}

/// Every ready job of this queue, page by page.
async fn payload_of_each(kit: &Kit) -> HashMap<JobId, String> {
    let mut filter = JobFilter {
        state: State::Ready,
        queue: Some(kit.queue().to_owned()),
        kind: None,
        before: None,
        limit: limits::PAGE_ROWS_MAX,
    };
    let mut payloads = HashMap::new();
    loop {
        let page = kit.backend().jobs(&filter).await.unwrap();
        let next = page.next(filter.limit);
        payloads.extend(page.jobs.into_iter().map(|job| (job.id, job.payload.unwrap())));
        let Some(next) = next else { return payloads };
        assert!(filter.before.is_none_or(|before| next < before), "a page repeats the one before");
        filter.before = Some(next);
    }
}

/// Rules E7, E9.
async fn more_rows_than_the_limit_are_refused(kit: Kit) {
    let jobs = vec![kit.new_job(); limits::ENQUEUE_JOBS_MAX + 1];
    refused_as(kit.backend().enqueue(&jobs).await, ErrorKind::InvalidArgument);
    assert_eq!(kit.count("job", "1 = 1").await, 0);
}

/// Rule E7.
async fn rows_of_several_queues_share_a_call(kit: Kit) {
    let (a, b) = (kit.beside("a"), kit.beside("b"));
    let jobs =
        [b.new_job().unique_key("k"), a.new_job().unique_key("k"), b.new_job(), a.new_job().priority(7)];
    let answers = kit.backend().enqueue(&jobs).await.unwrap();
    assert!(answers.iter().all(|answer| answer.created));
    assert_eq!(a.claim_ids(10).await, vec![answers[1].id, answers[3].id]);
    assert_eq!(b.claim_ids(10).await, vec![answers[0].id, answers[2].id]);
}
