//! Enqueue: what a producer gives, and what is there afterwards.

mod bytes;
mod keys;
mod limits;
mod many;
mod trace;

use std::time::Duration;

use time::macros::{datetime, offset};
use turno_contract::{ErrorKind, State};

use crate::Kit;
use crate::kit::{KIND, refused_as};

super::cases! {
    Nothing: [
        a_new_job_is_ready_with_every_default,
        commit_makes_it_visible,
        rollback_leaves_nothing,
        a_run_at_in_the_past_means_now,
        a_run_at_is_rounded_up_to_a_millisecond,
        a_run_at_with_any_offset_is_the_same_instant,
        a_far_run_at_is_kept_exactly,
        the_priority_is_zero_unless_the_scheduler_gives_one,
    ],
    Alone: [ids_are_never_reused, ids_beyond_every_narrow_integer_live_a_whole_life],
}

/// All cases of this operation.
pub(super) fn all() -> Vec<crate::Case> {
    [cases(), bytes::cases(), keys::cases(), limits::cases(), many::cases(), trace::cases()]
        .into_iter()
        .flatten()
        .collect()
}

/// Rules E2, P6, X1.
async fn a_new_job_is_ready_with_every_default(kit: Kit) {
    let id = kit.enqueue_new(turno_contract::NewJob::new(kit.queue(), KIND, r#"{"a":1}"#)).await;
    let job = kit.job(id).await;
    assert_eq!((job.id, job.queue.as_str(), job.kind.as_str()), (id, kit.queue(), KIND));
    assert_eq!((job.state, job.payload.as_deref()), (State::Ready, Some(r#"{"a":1}"#)));
    assert_eq!((job.priority, job.attempt, job.failures, job.max_attempts), (0, 0, 0, 20));
    assert_eq!(job.max_run, Duration::from_secs(3600));
    assert!(!job.operation_id.is_nil());
    assert_ne!(job.operation_id, kit.job(kit.enqueue_one().await).await.operation_id);
    assert_eq!((job.worker, job.claimed_at, job.lease_until, job.finished_at), (None, None, None, None));
    assert_eq!((job.unique_key, job.cancel_requested_at, job.result, job.error), (None, None, None, None));
    assert!(job.run_at >= job.created_at && job.run_at - job.created_at <= Duration::from_millis(1));
}

/// Rule E1.
async fn commit_makes_it_visible(kit: Kit) {
    let mut transaction = kit.begin().await;
    let answer = transaction.enqueue(&kit.new_job()).await.unwrap();
    assert!(answer.created);
    assert_eq!(kit.backend().job(answer.id).await.unwrap(), None);
    transaction.commit().await.unwrap();
    assert_eq!(kit.state(answer.id).await, State::Ready);
    assert_eq!(kit.claim_ids(10).await, vec![answer.id]);
}

/// Rule E1: neither the job nor its keys are left.
async fn rollback_leaves_nothing(kit: Kit) {
    let job = kit.new_job().unique_key("u").idempotency_key("i");
    let mut transaction = kit.begin().await;
    assert!(transaction.enqueue(&job).await.unwrap().created);
    transaction.rollback().await.unwrap();
    assert_eq!((kit.count("job", "1 = 1").await, kit.count("enqueue_key", "1 = 1").await), (0, 0));
    assert_eq!(kit.claim_ids(10).await, vec![]);
    assert!(kit.enqueue(job).await.created);
}

/// Rule T2. B41: it does not come before what waits already.
async fn a_run_at_in_the_past_means_now(kit: Kit) {
    let mut expected = vec![kit.enqueue_one().await];
    for past in
        [datetime!(1970-01-01 0:00 UTC), datetime!(0001-01-01 0:00 UTC), datetime!(2001-09-09 1:46:40 UTC)]
    {
        let id = kit.enqueue_new(kit.new_job().run_at(past)).await;
        let job = kit.job(id).await;
        assert_eq!(job.state, State::Ready);
        assert!(job.run_at >= job.created_at - Duration::from_millis(1), "due at {}", job.run_at);
        expected.push(id);
    }
    assert_eq!(kit.claim_ids(10).await, expected);
}

/// Rule T3.
async fn a_run_at_is_rounded_up_to_a_millisecond(kit: Kit) {
    let base = datetime!(2101-02-03 4:05:06 UTC);
    for (nanoseconds, milliseconds) in
        [(0, 0), (1, 1), (999_999, 1), (1_000_000, 1), (1_000_001, 2), (999_000_001, 1000)]
    {
        let id = kit.enqueue_new(kit.new_job().run_at(base + Duration::from_nanos(nanoseconds))).await;
        assert_eq!(kit.job(id).await.run_at, base + Duration::from_millis(milliseconds), "{nanoseconds} ns");
    }
}

/// Rules T1, T2. B39.
async fn a_run_at_with_any_offset_is_the_same_instant(kit: Kit) {
    let due = datetime!(2100-03-14 1:59:26.535 UTC);
    for offset in [offset!(+5:45), offset!(-3:30), offset!(+14), offset!(-12), offset!(+0:00:01)] {
        let id = kit.enqueue_new(kit.new_job().run_at(due.to_offset(offset))).await;
        let job = kit.job(id).await;
        assert_eq!((job.run_at, job.state), (due, State::Scheduled), "offset {offset}");
    }
    let soon = kit.beside("soon");
    let due = soon.now().await + Duration::from_secs(1000);
    let id = soon.enqueue_new(soon.new_job().run_at(due.to_offset(offset!(+5:45)))).await;
    soon.age(Duration::from_secs(900)).await;
    soon.promote().await;
    assert_eq!(soon.claim_ids(1).await, vec![]);
    soon.age(Duration::from_secs(101)).await;
    soon.promote().await;
    assert_eq!(soon.claim_ids(1).await, vec![id]);
}

/// Rule T2. B41: times beyond 32 bits of seconds, and the last one allowed.
async fn a_far_run_at_is_kept_exactly(kit: Kit) {
    let far = [
        datetime!(2038-01-19 3:14:08 UTC),
        datetime!(2106-02-07 6:28:16 UTC),
        datetime!(2262-04-12 0:00 UTC),
        datetime!(9999-12-31 23:59:59 UTC),
    ];
    for due in far {
        let id = kit.enqueue_new(kit.new_job().run_at(due).priority(1000)).await;
        let job = kit.job(id).await;
        assert_eq!((job.run_at, job.state), (due, State::Scheduled));
    }
    let after = kit.new_job().run_at(datetime!(9999-12-31 23:59:59.001 UTC));
    refused_as(kit.backend().enqueue(&[after]).await, ErrorKind::InvalidArgument);
    let claimed = kit.backend().claim(&kit.request(10)).await.unwrap();
    assert_eq!(claimed.jobs, vec![]);
    assert!(claimed.next_due_in.expect("scheduled jobs") > Duration::from_secs(3600 * 24 * 365));
}

/// Rule E2.
async fn the_priority_is_zero_unless_the_scheduler_gives_one(kit: Kit) {
    assert_eq!(kit.job(kit.enqueue_one().await).await.priority, 0);
    for priority in [-1000, -1, 0, 1, 1000] {
        let id = kit.enqueue_new(kit.new_job().priority(priority)).await;
        assert_eq!(kit.job(id).await.priority, priority);
    }
    for priority in [-1001, 1001, i32::MIN, i32::MAX] {
        refused_as(
            kit.backend().enqueue(&[kit.new_job().priority(priority)]).await,
            ErrorKind::InvalidArgument,
        );
    }
    assert_eq!(kit.count("job", "1 = 1").await, 6);
}

/// Rule E3: not even the highest id is given again after its job is gone.
async fn ids_are_never_reused(kit: Kit) {
    let mut highest = kit.enqueue_one().await;
    for _ in 0..3 {
        let job = kit.claim_one().await;
        kit.complete(job.proof).await;
        kit.forget(job.proof.job).await;
        let next = kit.enqueue_one().await;
        assert!(next > highest, "{next} after {highest}");
        highest = next;
    }
    let mut transaction = kit.begin().await;
    let committed = transaction.enqueue(&kit.new_job()).await.unwrap().id;
    assert!(committed > highest);
    transaction.commit().await.unwrap();
    assert!(kit.enqueue_one().await > committed);
}

/// Rule E3. B57.
async fn ids_beyond_every_narrow_integer_live_a_whole_life(kit: Kit) {
    for above in [1 << 31, 1 << 53] {
        kit.rig().raise_ids(above).await;
        let ids = kit.enqueue_n(3).await;
        assert!(ids.iter().all(|id| id.0 > above), "{ids:?} after {above}");
        let job = kit.claim_one().await;
        assert_eq!(job.proof.job, ids[0]);
        assert!(kit.is_held(job.proof).await);
        crate::kit::assert_done(&kit.fail(job.proof, "no", turno_contract::Retry::Never).await, State::Dead);
        kit.backend().retry(ids[0]).await.unwrap();
        assert_eq!(kit.state(ids[0]).await, State::Ready);
        assert_eq!(kit.attempts(ids[0]).await.len(), 1);
        kit.backend().reprioritize(ids[0], -1).await.unwrap();
        let mut again = kit.claim_n(3).await;
        assert_eq!(crate::kit::ids(&again), ids);
        kit.release(again.remove(2).proof, None).await;
        crate::kit::assert_refused(&kit.complete(crate::kit::stolen(again[0].proof)).await, State::Running);
        assert_eq!(kit.refused(ids[0]).await[0].job, ids[0]);
        for job in &again {
            crate::kit::assert_done(&kit.complete(job.proof).await, State::Succeeded);
        }
        kit.backend().cancel(ids[2], false).await.unwrap();
        let filter = turno_contract::JobFilter {
            state: State::Succeeded,
            queue: Some(kit.queue().to_owned()),
            kind: None,
            before: Some(turno_contract::JobId(ids[2].0 + 1)),
            limit: 2,
        };
        let listed = kit.backend().jobs(&filter).await.unwrap().jobs;
        assert_eq!(listed.iter().map(|job| job.id).collect::<Vec<_>>(), vec![ids[1], ids[0]]);
    }
}
