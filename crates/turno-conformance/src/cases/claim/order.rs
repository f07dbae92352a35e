//! The order in which a claim takes what is due.

use std::time::Duration;

use turno_contract::{JobId, NewJob, Retry, SettingsChange};

use crate::Kit;
use crate::kit::ids;

super::super::cases! {
    Nothing: [
        lower_priority_first_then_due_time_then_id,
        every_claim_takes_a_prefix_of_the_order,
        a_job_is_found_by_no_claim_before_it_is_due,
        a_due_job_is_claimed_without_anybody_promoting_it,
        a_retry_keeps_its_priority,
        queues_are_served_in_the_order_given,
        from_ranks_looks_only_behind_the_hint,
        strict_priority_beats_any_waiting_time,
        aging_lifts_a_job_by_one_level_per_interval,
    ],
}

/// Rule C3. B36: from the most urgent, over zero, to the least urgent.
async fn lower_priority_first_then_due_time_then_id(kit: Kit) {
    let mut expected: Vec<(i32, JobId)> = Vec::new();
    for priority in [1000, 0, -1, 1, -1000, 0, 1, -1000] {
        expected.push((priority, kit.enqueue_new(kit.new_job().priority(priority)).await));
    }
    expected.push((0, kit.enqueue_one().await));
    expected.sort();
    let expected: Vec<JobId> = expected.into_iter().map(|(_, id)| id).collect();
    let mut claimed = Vec::new();
    while let Some(id) = kit.claim_ids(1).await.pop() {
        claimed.push(id);
    }
    assert_eq!(claimed, expected);

    let due = kit.beside("due");
    let late = due.scheduled(Duration::from_secs(300)).await;
    let early = due.scheduled(Duration::from_secs(100)).await;
    let middle = due.scheduled(Duration::from_secs(200)).await;
    due.age(Duration::from_secs(1000)).await;
    due.promote().await;
    let last = due.enqueue_one().await;
    assert_eq!(due.claim_ids(10).await, vec![early, middle, late, last]);

    let same = kit.beside("same");
    let tied = same.enqueue_n(50).await;
    assert_eq!(same.claim_ids(50).await, tied, "one call, one due time: by id");
}

/// Rule C3. B34.
async fn every_claim_takes_a_prefix_of_the_order(kit: Kit) {
    let jobs: Vec<NewJob> = (0..120).map(|n| kit.new_job().priority((n * 7919) % 13 - 6)).collect();
    let answers = kit.backend().enqueue(&jobs).await.unwrap();
    let mut waiting: Vec<(i32, JobId)> =
        jobs.iter().zip(&answers).map(|(j, a)| (j.priority.unwrap(), a.id)).collect();
    waiting.sort();
    for limit in [1, 2, 5, 17, 40] {
        let claimed = kit.claim_n(limit).await;
        let prefix: Vec<JobId> = waiting.drain(..limit as usize).map(|(_, id)| id).collect();
        assert_eq!(ids(&claimed), prefix);
        assert!(claimed.windows(2).all(|pair| pair[0].rank <= pair[1].rank));
    }
}

/// Rules T1, C3. B41.
async fn a_job_is_found_by_no_claim_before_it_is_due(kit: Kit) {
    let id = kit.scheduled(Duration::from_secs(25 * 24 * 3600)).await;
    kit.age(Duration::from_secs(24 * 24 * 3600)).await;
    assert_eq!(kit.promote().await, 0);
    assert_eq!(kit.claim_ids(1).await, vec![]);
    kit.age(Duration::from_secs(24 * 3600 + 1)).await;
    kit.promote().await;
    assert_eq!(kit.claim_ids(1).await, vec![id]);
}

/// Rule C3: over all due jobs.
async fn a_due_job_is_claimed_without_anybody_promoting_it(kit: Kit) {
    let due = kit.scheduled(Duration::from_secs(100)).await;
    kit.age(Duration::from_secs(200)).await;
    let fresh = kit.enqueue_one().await;
    assert_eq!(kit.claim_ids(2).await, vec![due, fresh]);
}

/// Rule C3. B34.
async fn a_retry_keeps_its_priority(kit: Kit) {
    let urgent = kit.enqueue_new(kit.new_job().priority(-10)).await;
    let job = kit.claim_one().await;
    kit.fail(job.proof, "no", Retry::In(Duration::from_secs(60))).await;
    kit.backend().enqueue(&vec![kit.new_job().priority(10); 20]).await.unwrap();
    assert!(!kit.claim_ids(5).await.contains(&urgent));
    kit.age(Duration::from_secs(61)).await;
    kit.promote().await;
    kit.enqueue_n(20).await;
    assert_eq!(kit.claim_ids(5).await[0], urgent);
}

/// Rules C1, C3.
async fn queues_are_served_in_the_order_given(kit: Kit) {
    let (a, b, c) = (kit.beside("a"), kit.beside("b"), kit.beside("c"));
    let in_a = a.enqueue_n(3).await;
    let in_b = b.backend().enqueue(&vec![b.new_job().priority(-1000); 3]).await.unwrap();
    let in_c = c.enqueue_n(3).await;
    let mut request = kit.request(5);
    request.queues = [&c, &a, &b].map(|kit| kit.queue().to_owned()).to_vec();
    assert_eq!(ids(&kit.claim_with(&request).await), [&in_c[..], &in_a[..2]].concat());
    request = kit.request(5);
    request.queues = [&b, &a, &c].map(|kit| kit.queue().to_owned()).to_vec();
    let rest: Vec<JobId> = in_b.iter().map(|answer| answer.id).chain([in_a[2]]).collect();
    assert_eq!(ids(&kit.claim_with(&request).await), rest);
}

/// Rule C8.
async fn from_ranks_looks_only_behind_the_hint(kit: Kit) {
    let all = kit.enqueue_n(5).await;
    kit.age(Duration::from_secs(10)).await;
    let later = kit.enqueue_n(2).await;
    let first = kit.claim_n(6).await;
    assert_eq!(ids(&first), [&all[..], &later[..1]].concat());
    let urgent = kit.enqueue_new(kit.new_job().priority(-5)).await;
    kit.release(first[0].proof, None).await;
    let mut behind = kit.request(1);
    behind.from_ranks = vec![Some(first[5].rank)];
    assert_eq!(ids(&kit.claim_with(&behind).await), later[1..]);
    let mut swept = kit.request(10);
    swept.from_ranks = vec![None];
    assert_eq!(ids(&kit.claim_with(&swept).await), vec![urgent, all[0]]);

    let (a, b) = (kit.beside("a"), kit.beside("b"));
    let (in_a, in_b) = (a.enqueue_n(2).await, b.enqueue_n(1).await);
    let mut mixed = kit.request(10);
    mixed.queues = vec![a.queue().to_owned(), b.queue().to_owned()];
    mixed.from_ranks = vec![None, Some(i64::MIN)];
    assert_eq!(ids(&kit.claim_with(&mixed).await), [in_a, in_b].concat());
}

/// Rule C9.
async fn strict_priority_beats_any_waiting_time(kit: Kit) {
    let waiting = kit.enqueue_new(kit.new_job().priority(1)).await;
    kit.age(Duration::from_secs(10 * 365 * 24 * 3600)).await;
    let fresh = kit.enqueue_one().await;
    assert_eq!(kit.claim_ids(10).await, vec![fresh, waiting]);
}

/// Rule C9.
async fn aging_lifts_a_job_by_one_level_per_interval(kit: Kit) {
    let minute = Duration::from_secs(60);
    kit.set(SettingsChange { aging: Some(Some(minute)), ..Default::default() }).await;
    for (waited, lifted) in [(8 * minute, false), (12 * minute, true)] {
        let waiting = kit.enqueue_new(kit.new_job().priority(10)).await;
        kit.age(waited).await;
        let fresh = kit.enqueue_one().await;
        let expected = if lifted { vec![waiting, fresh] } else { vec![fresh, waiting] };
        assert_eq!(kit.claim_ids(10).await, expected, "after {waited:?}");
    }
    let urgent = kit.enqueue_new(kit.new_job().priority(-1)).await;
    let urgent_and_later = kit.enqueue_new(kit.new_job().priority(-1)).await;
    assert_eq!(kit.claim_ids(10).await, vec![urgent, urgent_and_later]);
}
