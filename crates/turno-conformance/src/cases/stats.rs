//! Stats: what an operator looks at first.

use std::time::Duration;

use turno_contract::{Completion, Count, QueueStats, Retry, SettingsChange, limits};

use crate::Kit;
use crate::kit::stolen;

super::cases! {
    Nothing: [
        depth_is_counted_by_state,
        the_oldest_due_job_is_found_whatever_its_priority,
        what_ended_in_the_window_is_counted_by_outcome,
        times_to_start_and_to_finish_are_percentiles_of_the_window,
        times_are_those_of_the_latest_jobs,
        counts_stop_at_the_cap_and_say_so,
    ],
    Alone: [expired_leases_are_counted],
}

const HOUR: Duration = Duration::from_secs(3600);

/// This queue's line; `None` if there is none.
async fn try_stats(kit: &Kit, window: Duration) -> Option<QueueStats> {
    let all = kit.backend().stats(window).await.unwrap();
    let own: Vec<QueueStats> = all.into_iter().filter(|stats| stats.queue == kit.queue()).collect();
    assert!(own.len() <= 1, "{own:?}");
    own.into_iter().next()
}

async fn stats(kit: &Kit, window: Duration) -> QueueStats {
    try_stats(kit, window).await.expect("a line for this queue")
}

fn exactly(n: u64) -> Count {
    Count { n, capped: false }
}

/// Rule V1.
async fn depth_is_counted_by_state(kit: Kit) {
    assert_eq!(try_stats(&kit, HOUR).await, None);
    kit.enqueue_n(6).await;
    kit.claim_n(2).await;
    kit.scheduled(HOUR).await;
    let seen = stats(&kit, HOUR).await;
    assert_eq!(
        (seen.ready, seen.running, seen.scheduled, seen.expired),
        (exactly(4), exactly(2), exactly(1), exactly(0))
    );
    assert_eq!((seen.succeeded, seen.dead, seen.cancelled), (exactly(0), exactly(0), exactly(0)));
    assert_eq!((seen.retries, seen.refused, seen.paused), (exactly(0), exactly(0), false));
    assert_eq!((seen.start_p50, seen.start_p99, seen.finish_p50, seen.finish_p99), (None, None, None, None));
    kit.backend().pause(kit.queue()).await.unwrap();
    assert!(stats(&kit, HOUR).await.paused);
}

/// Insists that an age is this much, and at most a minute more for a slow machine.
fn assert_age(age: Option<Duration>, expected: Duration) {
    let age = age.expect("a due job");
    assert!(age >= expected && age < expected + Duration::from_secs(60), "{age:?}, expected {expected:?}");
}

/// Rule V1. B41: and no age overflows.
async fn the_oldest_due_job_is_found_whatever_its_priority(kit: Kit) {
    kit.scheduled(100 * HOUR).await;
    assert_eq!(stats(&kit, HOUR).await.oldest_due_age, None, "nothing is due");
    kit.enqueue_new(kit.new_job().priority(10)).await;
    kit.age(HOUR).await;
    kit.enqueue_new(kit.new_job().priority(-10)).await;
    kit.enqueue_n(3).await;
    assert_age(stats(&kit, HOUR).await.oldest_due_age, HOUR);
    kit.claim_n(4).await;
    assert_age(stats(&kit, HOUR).await.oldest_due_age, HOUR);
    kit.claim_n(1).await;
    assert_eq!(stats(&kit, HOUR).await.oldest_due_age, None, "a claimed job waits no more");
    kit.age(109 * HOUR).await;
    assert_age(stats(&kit, HOUR).await.oldest_due_age, 10 * HOUR);

    let aging = kit.beside("aging");
    aging.set(SettingsChange { aging: Some(Some(Duration::from_secs(60))), ..Default::default() }).await;
    aging.enqueue_new(aging.new_job().priority(500)).await;
    aging.age(2 * HOUR).await;
    aging.enqueue_new(aging.new_job().priority(-500)).await;
    assert_age(stats(&aging, HOUR).await.oldest_due_age, 2 * HOUR);
    let ancient = kit.beside("ancient");
    ancient.enqueue_one().await;
    ancient.age(HOUR * 24 * 365 * 50).await;
    assert_age(stats(&ancient, HOUR).await.oldest_due_age, HOUR * 24 * 365 * 50);
}

/// Rules V1, S7.
async fn what_ended_in_the_window_is_counted_by_outcome(kit: Kit) {
    let backend = kit.backend();
    kit.enqueue_n(8).await;
    let jobs = kit.claim_n(8).await;
    for job in &jobs[..3] {
        kit.complete(job.proof).await;
    }
    kit.fail(jobs[3].proof, "no", Retry::Never).await;
    kit.fail(jobs[4].proof, "no", Retry::In(100 * HOUR)).await;
    kit.fail(jobs[5].proof, "no", Retry::In(100 * HOUR)).await;
    kit.release(jobs[6].proof, Some(100 * HOUR)).await;
    backend.cancel(jobs[7].proof.job, true).await.unwrap();
    kit.complete(stolen(jobs[0].proof)).await;
    kit.complete(stolen(jobs[1].proof)).await;
    let seen = stats(&kit, HOUR).await;
    assert_eq!((seen.succeeded, seen.dead, seen.cancelled), (exactly(3), exactly(1), exactly(1)));
    assert_eq!((seen.retries, seen.refused), (exactly(2), exactly(2)));
    assert_eq!((seen.scheduled, seen.running), (exactly(3), exactly(0)));
    kit.age(2 * HOUR).await;
    let seen = stats(&kit, HOUR).await;
    assert_eq!((seen.succeeded, seen.dead, seen.cancelled), (exactly(0), exactly(0), exactly(0)));
    assert_eq!((seen.retries, seen.refused, seen.scheduled), (exactly(0), exactly(0), exactly(3)));
    let seen = stats(&kit, 3 * HOUR).await;
    assert_eq!((seen.succeeded, seen.dead, seen.cancelled), (exactly(3), exactly(1), exactly(1)));
    assert_eq!((seen.retries, seen.refused), (exactly(2), exactly(2)));
}

/// Rule V1.
async fn times_to_start_and_to_finish_are_percentiles_of_the_window(kit: Kit) {
    let minute = Duration::from_secs(60);
    let slow = kit.enqueue_one().await;
    kit.age(20 * minute).await;
    kit.enqueue_n(8).await;
    kit.age(4 * minute).await;
    let jobs = kit.claim_n(9).await;
    assert_eq!(jobs[0].proof.job, slow);
    kit.age(10 * minute).await;
    for job in &jobs {
        kit.complete(job.proof).await;
    }
    let seen = stats(&kit, HOUR).await;
    assert_age(seen.start_p50, 4 * minute);
    assert_age(seen.start_p99, 24 * minute);
    assert_age(seen.finish_p50, 14 * minute);
    assert_age(seen.finish_p99, 34 * minute);
}

/// Rule V1. B64: however many have ended, it looks at so many of each outcome.
async fn times_are_those_of_the_latest_jobs(kit: Kit) {
    let minute = Duration::from_secs(60);
    kit.enqueue_n(20).await;
    kit.age(40 * minute).await;
    for job in kit.claim_n(20).await {
        kit.complete(job.proof).await;
    }
    assert_age(stats(&kit, HOUR).await.finish_p99, 40 * minute);
    kit.enqueue_n(limits::STATS_TIMES_ROWS as usize).await;
    let quick = kit.claim_n(limits::STATS_TIMES_ROWS).await;
    let quick: Vec<Completion> =
        quick.iter().map(|job| Completion { proof: job.proof, result: None }).collect();
    kit.backend().complete("w", &quick).await.unwrap();
    let seen = stats(&kit, HOUR).await;
    assert_eq!(seen.succeeded, exactly(20 + quick.len() as u64));
    for time in [seen.start_p99, seen.finish_p99] {
        assert!(time.is_some_and(|time| time < 20 * minute), "{seen:?}");
    }
}

/// Rule V1. B64: it costs the same at any size.
async fn counts_stop_at_the_cap_and_say_so(kit: Kit) {
    let cap = limits::STATS_COUNT_CAP;
    kit.enqueue_n(cap as usize - 1).await;
    assert_eq!(stats(&kit, HOUR).await.ready, exactly(cap - 1));
    kit.enqueue_n(51).await;
    assert_eq!(stats(&kit, HOUR).await.ready, Count { n: cap, capped: true });
}

/// Rule V1.
async fn expired_leases_are_counted(kit: Kit) {
    kit.enqueue_n(3).await;
    kit.claim_n(2).await;
    kit.expire().await;
    kit.claim_n(1).await;
    let seen = stats(&kit, HOUR).await;
    assert_eq!((seen.running, seen.expired), (exactly(3), exactly(2)));
    kit.reap_all().await;
    let seen = stats(&kit, HOUR).await;
    assert_eq!((seen.running, seen.expired, seen.retries), (exactly(1), exactly(0), exactly(2)));
}
