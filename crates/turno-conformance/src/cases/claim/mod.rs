//! Claim: who gets which job, and under which proof.

mod order;
mod poison;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Barrier;
use turno_contract::{ClaimRequest, ErrorKind, JobId, Proof, Retry, SettledStatus, State, Token, limits};

use crate::Kit;
use crate::kit::{LEASE, WORKER, assert_done, assert_refused, ids, within};

super::cases! {
    Nothing: [
        an_empty_queue_answers_nothing,
        a_claimed_job_says_what_was_enqueued,
        a_claim_never_takes_more_than_its_limit,
        a_thousand_jobs_fit_into_one_claim,
        eight_claimers_get_each_of_five_hundred_jobs_once,
        a_queue_named_twice_gives_each_job_once,
        every_claim_has_its_own_token_and_a_higher_attempt,
        the_same_token_returns_what_it_holds_and_takes_no_more,
        two_claims_with_one_token_at_once_take_no_more_than_one,
        a_token_that_holds_nothing_any_more_may_claim_again,
        two_lives_of_one_worker_are_two_owners,
        no_answer_shows_the_token_of_a_running_job,
        arguments_outside_their_limits_are_refused,
        the_lease_is_as_long_as_asked_for,
        a_short_claim_says_when_the_next_job_is_due,
    ],
    RowLocks: [
        a_claim_skips_a_job_that_another_transaction_holds,
        a_job_that_was_committed_late_is_claimed_all_the_same,
    ],
    Routines: [a_claim_refuses_to_join_a_transaction],
}

/// All cases of this operation.
pub(super) fn all() -> Vec<crate::Case> {
    [cases(), order::cases(), poison::cases()].into_iter().flatten().collect()
}

/// Rule C1.
async fn an_empty_queue_answers_nothing(kit: Kit) {
    let claimed = kit.backend().claim(&kit.request(10)).await.unwrap();
    assert_eq!((claimed.jobs, claimed.next_due_in), (vec![], None));
}

/// Rules C1, C4, X1.
async fn a_claimed_job_says_what_was_enqueued(kit: Kit) {
    let new = turno_contract::NewJob::new(kit.queue(), "a-kind", "[1]")
        .priority(-3)
        .max_attempts(7)
        .max_run(Duration::from_secs(77));
    let id = kit.enqueue_new(new).await;
    let before = kit.job(id).await;
    let request = kit.request(1);
    let job = kit.claim_with(&request).await.remove(0);
    assert_eq!(job.proof, Proof { job: id, attempt: 1, token: request.token });
    assert_eq!((job.queue.as_str(), job.kind.as_str(), job.payload.as_str()), (kit.queue(), "a-kind", "[1]"));
    assert_eq!((job.priority, job.failures, job.max_attempts), (-3, 0, 7));
    assert_eq!((job.max_run, job.operation_id), (Duration::from_secs(77), before.operation_id));
    assert_eq!((job.run_at, job.created_at), (before.run_at, before.created_at));
    assert!(job.claimed_at >= job.created_at);
    let after = kit.job(id).await;
    assert_eq!((after.state, after.attempt, after.worker.as_deref()), (State::Running, 1, Some(WORKER)));
    assert_eq!((after.claimed_at, after.lease_until), (Some(job.claimed_at), Some(job.lease_until)));
}

/// Rule C1. B27: and what is not in the answer was not taken.
async fn a_claim_never_takes_more_than_its_limit(kit: Kit) {
    kit.enqueue_n(100).await;
    let mut taken = 0;
    for limit in [1, 1, 7, 1, 10, 30] {
        taken += kit.claim_n(limit).await.len() as i64;
        assert_eq!(kit.count("job", "state = 'running'").await, taken);
    }
    assert_eq!(taken, 50);
    assert_eq!(kit.claim_n(1000).await.len(), 50);
}

/// Rule C1. B61.
async fn a_thousand_jobs_fit_into_one_claim(kit: Kit) {
    let all = kit.enqueue_n(1100).await;
    assert_eq!(kit.claim_ids(limits::CLAIM_JOBS_MAX).await, all[..1000]);
    assert_eq!(kit.claim_ids(limits::CLAIM_JOBS_MAX).await, all[1000..]);
}

/// Rule C1.
async fn eight_claimers_get_each_of_five_hundred_jobs_once(kit: Kit) {
    let all = kit.enqueue_n(500).await;
    let barrier = Arc::new(Barrier::new(8));
    let claimers = (1..=8).map(|limit| {
        let (kit, barrier) = (kit.clone(), barrier.clone());
        tokio::spawn(async move {
            barrier.wait().await;
            let mut got = Vec::new();
            loop {
                let jobs = kit.claim_n(limit).await;
                if jobs.is_empty() {
                    return got;
                }
                got.extend(ids(&jobs));
            }
        })
    });
    let got = within("eight claimers", join_all(claimers)).await;
    let mut got: Vec<JobId> = got.into_iter().flat_map(Result::unwrap).collect();
    // A claimer may see nothing while the others hold the last rows, but nothing can be left once all are done.
    got.extend(kit.claim_ids(1000).await);
    assert_eq!(got.len(), 500, "some job was given twice, or not at all");
    assert_eq!(got.into_iter().collect::<HashSet<_>>(), all.into_iter().collect());
    assert_eq!(kit.count("job", "attempt <> 1 OR state <> 'running'").await, 0);
}

/// Rule C1.
async fn a_queue_named_twice_gives_each_job_once(kit: Kit) {
    let all = kit.enqueue_n(3).await;
    let mut request = kit.request(10);
    request.queues = vec![kit.queue().to_owned(); 2];
    assert_eq!(ids(&kit.claim_with(&request).await), all);
    let (again, beside) = (kit.enqueue_n(3).await, kit.beside("other").enqueue_n(3).await);
    let mut request = kit.request(5);
    request.queues =
        vec![kit.queue().to_owned(), kit.queue().to_owned(), kit.beside("other").queue().to_owned()];
    let expected = again.into_iter().chain(beside.into_iter().take(2)).collect::<Vec<_>>();
    assert_eq!(ids(&kit.claim_with(&request).await), expected, "no place is wasted");
}

/// Rules C4, X1.
async fn every_claim_has_its_own_token_and_a_higher_attempt(kit: Kit) {
    assert!(Token::new(uuid::Uuid::nil()).is_err(), "the nil token is refused");
    let id = kit.enqueue_one().await;
    let mut tokens = HashSet::new();
    let operation = kit.job(id).await.operation_id;
    for attempt in 1..=5 {
        let request = kit.request(1);
        let job = kit.claim_with(&request).await.remove(0);
        assert_eq!(job.proof, Proof { job: id, attempt, token: request.token });
        assert_eq!(job.operation_id, operation);
        assert!(tokens.insert(job.proof.token));
        if attempt % 2 == 0 {
            kit.release(job.proof, None).await;
        } else {
            kit.fail(job.proof, "no", Retry::In(Duration::ZERO)).await;
            kit.promote().await;
        }
        assert_eq!(kit.job(id).await.attempt, attempt, "it does not go back");
    }
}

/// Rule C5.
async fn the_same_token_returns_what_it_holds_and_takes_no_more(kit: Kit) {
    let all = kit.enqueue_n(5).await;
    let request = kit.request(2);
    let first = kit.claim_with(&request).await;
    assert_eq!(ids(&first), all[..2]);
    let mut more = request.clone();
    more.limit = 5;
    let mut again = kit.claim_with(&more).await;
    again.sort_by_key(|job| job.proof.job);
    assert_eq!(again, first);
    let elsewhere = kit.beside("elsewhere");
    elsewhere.enqueue_one().await;
    more.queues = vec![elsewhere.queue().to_owned(), kit.queue().to_owned()];
    assert_eq!(kit.claim_with(&more).await.len(), 2);
    assert_done(&kit.complete(first[0].proof).await, State::Succeeded);
    assert_eq!(ids(&kit.claim_with(&more).await), all[1..2]);
    assert_eq!(kit.count("job", "state = 'running'").await, 1);
    assert_eq!(elsewhere.count("job", "state = 'ready'").await, 1);
}

/// Rule C5: a claim is repeated while the first one may still be on its way.
async fn two_claims_with_one_token_at_once_take_no_more_than_one(kit: Kit) {
    kit.enqueue_n(100).await;
    for round in 1..=10 {
        let request = kit.request(5);
        let claims = (0..4).map(|_| {
            let (kit, request) = (kit.clone(), request.clone());
            tokio::spawn(async move { kit.claim_with(&request).await })
        });
        let answers = within("four claims", join_all(claims)).await;
        let held: HashSet<JobId> =
            kit.backend().held(request.token).await.unwrap().iter().map(|job| job.proof.job).collect();
        assert_eq!(held.len(), 5);
        for answer in answers {
            let got: HashSet<JobId> = ids(&answer.unwrap()).into_iter().collect();
            assert_eq!(got, held, "each answer is the whole claim");
        }
        assert_eq!(kit.count("job", "state = 'running'").await, 5 * round);
    }
}

/// Rules C5, O2: the attempt is the fence even if the token is repeated.
async fn a_token_that_holds_nothing_any_more_may_claim_again(kit: Kit) {
    kit.enqueue_one().await;
    let request = kit.request(1);
    let first = kit.claim_with(&request).await.remove(0);
    kit.release(first.proof, None).await;
    let second = kit.claim_with(&request).await.remove(0);
    assert_eq!(second.proof, Proof { attempt: 2, ..first.proof });
    assert_refused(&kit.complete(first.proof).await, State::Running);
    assert!(!matches!(kit.beat(first.proof).await, turno_contract::HeartbeatAnswer::Held { .. }));
    assert!(kit.is_held(second.proof).await);
    assert_done(&kit.complete(second.proof).await, State::Succeeded);
}

/// Rule O1. B03.
async fn two_lives_of_one_worker_are_two_owners(kit: Kit) {
    kit.enqueue_n(2).await;
    let (first, second) = (kit.claim_one().await, kit.claim_one().await);
    assert_ne!(first.proof.token, second.proof.token);
    let mixed = Proof { token: second.proof.token, ..first.proof };
    assert_refused(&kit.complete(mixed).await, State::Running);
    assert_eq!(kit.beat(mixed).await, turno_contract::HeartbeatAnswer::Lost);
    assert!(kit.is_held(first.proof).await && kit.is_held(second.proof).await);
}

/// Rule O6.
async fn no_answer_shows_the_token_of_a_running_job(kit: Kit) {
    let first = kit.running_one().await;
    kit.release(first.proof, None).await;
    let job = kit.claim_one().await;
    let refused = kit.complete(crate::kit::stolen(job.proof)).await;
    assert_eq!(refused.status, SettledStatus::Refused);
    let id = job.proof.job;
    let seen = format!(
        "{refused:?} {:?} {:?} {:?}",
        kit.job(id).await,
        kit.attempts(id).await,
        kit.refused(id).await
    )
    .to_lowercase();
    let token = job.proof.token.as_uuid();
    assert!(!seen.contains(&token.to_string()) && !seen.contains(&token.simple().to_string()));
}

/// One thing that is wrong with a request.
type Change = fn(&mut ClaimRequest);

/// Rules E9, C1, H3. B41.
async fn arguments_outside_their_limits_are_refused(kit: Kit) {
    kit.enqueue_one().await;
    let queue = kit.queue().to_owned();
    let change: &[(&str, Change)] = &[
        ("no limit", |request| request.limit = 0),
        ("a limit too high", |request| request.limit = limits::CLAIM_JOBS_MAX + 1),
        ("no lease", |request| request.lease = Duration::ZERO),
        ("a lease too long", |request| request.lease = limits::LEASE_MAX + Duration::from_millis(1)),
        ("an endless lease", |request| request.lease = Duration::MAX),
        ("no queue", |request| request.queues.clear()),
        ("too many queues", |request| request.queues = vec!["q".to_owned(); 101]),
        ("no worker", |request| request.worker.clear()),
        ("hints for other queues", |request| request.from_ranks = vec![None, None]),
    ];
    for (what, change) in change {
        let mut request = kit.request(1);
        change(&mut request);
        let answer = kit.backend().claim(&request).await.map_err(|error| error.kind());
        assert_eq!(answer.err(), Some(ErrorKind::InvalidArgument), "{what}");
    }
    let mut most = kit.request(1000);
    most.queues = (0..99).map(|n| format!("{queue}/{n}")).collect();
    most.queues.push(queue);
    assert_eq!(kit.claim_with(&most).await.len(), 1);
}

/// Rules T1, H3.
async fn the_lease_is_as_long_as_asked_for(kit: Kit) {
    for (lease, max_run, expected) in [
        (Duration::from_millis(60_001), LEASE, Duration::from_millis(60_001)),
        (limits::LEASE_MAX, limits::MAX_RUN_MAX, limits::LEASE_MAX),
        (LEASE, Duration::from_secs(1800), Duration::from_secs(1810)),
    ] {
        kit.enqueue_new(kit.new_job().max_run(max_run)).await;
        let job = kit.claim_with(&kit.request(1).lease(lease)).await.remove(0);
        assert_eq!(job.lease_until - job.claimed_at, expected, "lease {lease:?}, max_run {max_run:?}");
    }
}

/// Rule C7.
async fn a_short_claim_says_when_the_next_job_is_due(kit: Kit) {
    let (minute, other) = (Duration::from_secs(60), kit.beside("other"));
    kit.scheduled(60 * minute).await;
    kit.scheduled(50 * minute).await;
    other.scheduled(5 * minute).await;
    kit.enqueue_one().await;
    let claimed = kit.backend().claim(&kit.request(5)).await.unwrap();
    assert_eq!(claimed.jobs.len(), 1);
    let due = claimed.next_due_in.expect("a job is scheduled");
    assert!(due <= 50 * minute && due > 48 * minute, "{due:?}");
    let mut both = kit.request(5);
    both.queues.push(other.queue().to_owned());
    let due = kit.backend().claim(&both).await.unwrap().next_due_in.expect("a job is scheduled");
    assert!(due <= 5 * minute && due > 3 * minute, "{due:?}");
}

/// Rule C2.
async fn a_claim_skips_a_job_that_another_transaction_holds(kit: Kit) {
    let all = kit.enqueue_n(3).await;
    let mut transaction = kit.begin().await;
    transaction.lock(all[0]).await.unwrap();
    transaction.lock(all[1]).await.unwrap();
    assert_eq!(within("a claim", kit.claim_ids(3)).await, all[2..]);
    assert_eq!(within("a claim", kit.claim_ids(3)).await, vec![]);
    transaction.rollback().await.unwrap();
    assert_eq!(kit.claim_ids(3).await, all[..2]);
}

/// Rule C3. B37: a smaller id that becomes visible later is passed over by nobody.
async fn a_job_that_was_committed_late_is_claimed_all_the_same(kit: Kit) {
    let mut transaction = kit.begin().await;
    let late = transaction.enqueue(&kit.new_job()).await.unwrap().id;
    let early = kit.enqueue_one().await;
    assert!(late < early);
    assert_eq!(kit.claim_ids(10).await, vec![early]);
    assert_eq!(kit.claim_ids(10).await, vec![]);
    transaction.commit().await.unwrap();
    assert_eq!(kit.claim_ids(10).await, vec![late]);
}

/// Rule C10.
async fn a_claim_refuses_to_join_a_transaction(kit: Kit) {
    for operation in ["claim", "reap", "promote", "prune"] {
        let mut transaction = kit.begin().await;
        let answer = transaction.call(operation).await.map_err(|error| error.kind());
        assert_eq!(answer, Err(ErrorKind::InvalidArgument), "{operation}");
        transaction.rollback().await.unwrap();
    }
}
