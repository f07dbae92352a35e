//! Idempotency and uniqueness: one job stands for many requests.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use turno_contract::{Completion, Enqueued, JobId, NewJob, Retry, State};

use crate::Kit;
use crate::kit::{GLANCE, WORKER, assert_done, not_yet, within};

super::super::cases! {
    Nothing: [
        an_idempotency_key_answers_the_first_job_while_its_record_is_kept,
        an_idempotency_key_belongs_to_one_queue,
        a_unique_key_finds_the_unfinished_job,
        a_unique_key_is_free_when_its_job_has_ended,
        idempotency_is_decided_before_uniqueness,
        a_new_idempotency_key_stands_for_the_job_that_was_found,
        a_second_caller_creates_the_job_if_the_first_rolls_back,
        a_second_caller_gets_the_job_if_the_first_commits,
        an_enqueue_beside_the_end_of_its_unique_job_is_never_left_with_nothing,
        enqueues_beside_a_worker_that_ends_their_unique_jobs_all_have_a_job,
        twenty_callers_with_one_unique_key_create_one_job,
        twenty_callers_with_one_idempotency_key_create_one_job,
        two_rows_of_one_call_with_the_same_key_give_one_job,
        bulk_calls_with_crossing_keys_do_not_deadlock,
    ],
}

fn found(id: JobId) -> Enqueued {
    Enqueued { id, created: false }
}

/// Rule E4. B48: an enqueue whose answer was lost is repeated.
async fn an_idempotency_key_answers_the_first_job_while_its_record_is_kept(kit: Kit) {
    let job = kit.new_job().idempotency_key("once");
    let id = kit.enqueue_new(job.clone()).await;
    let mut other = NewJob::new(kit.queue(), "another-kind", "[2]").idempotency_key("once");
    other.max_attempts = Some(3);
    assert_eq!(kit.enqueue(job.clone()).await, found(id));
    assert_eq!(kit.enqueue(other).await, found(id));
    let claimed = kit.claim_one().await;
    assert_eq!((claimed.kind.as_str(), claimed.payload.as_str()), (crate::kit::KIND, "{}"));
    assert_eq!(kit.enqueue(job.clone()).await, found(id));
    assert_done(&kit.complete(claimed.proof).await, State::Succeeded);
    assert_eq!(kit.enqueue(job.clone()).await, found(id));
    assert_eq!(kit.claim_ids(10).await, vec![]);
    kit.forget(id).await;
    let again = kit.enqueue(job.clone()).await;
    assert!(again.created && again.id != id);
    assert_eq!(kit.enqueue(job).await, found(again.id));
}

/// Rule E4.
async fn an_idempotency_key_belongs_to_one_queue(kit: Kit) {
    let other = kit.beside("other");
    let id = kit.enqueue_new(kit.new_job().idempotency_key("k")).await;
    let elsewhere = other.enqueue_new(other.new_job().idempotency_key("k")).await;
    assert_ne!(id, elsewhere);
    let both = [kit.new_job().idempotency_key("k"), other.new_job().idempotency_key("k")];
    assert_eq!(kit.backend().enqueue(&both).await.unwrap(), vec![found(id), found(elsewhere)]);
    assert!(other.enqueue(other.new_job().unique_key("k")).await.created, "a unique key is another key");
}

/// Rule E5.
async fn a_unique_key_finds_the_unfinished_job(kit: Kit) {
    let job = kit.new_job().unique_key("u").max_attempts(5);
    let id = kit.enqueue_new(job.clone()).await;
    assert_eq!(kit.enqueue(job.clone()).await, found(id));
    let claimed = kit.claim_one().await;
    assert_eq!(kit.enqueue(job.clone()).await, found(id), "while it runs");
    assert_done(&kit.fail(claimed.proof, "no", Retry::In(Duration::from_secs(60))).await, State::Scheduled);
    assert_eq!(kit.enqueue(job.clone()).await, found(id), "while it waits for its retry");
    let other = kit.beside("other");
    assert!(other.enqueue(other.new_job().unique_key("u")).await.created, "in another queue");
    assert_eq!(kit.count("job", "1 = 1").await, 1);
}

/// Rule E5.
async fn a_unique_key_is_free_when_its_job_has_ended(kit: Kit) {
    let job = kit.new_job().unique_key("u");
    for end in [State::Succeeded, State::Dead, State::Cancelled] {
        let claimed = kit.running(job.clone()).await;
        match end {
            State::Succeeded => assert_done(&kit.complete(claimed.proof).await, end),
            State::Dead => assert_done(&kit.fail(claimed.proof, "no", Retry::Never).await, end),
            _ => drop(kit.backend().cancel(claimed.proof.job, true).await.unwrap()),
        }
        assert_eq!(kit.state(claimed.proof.job).await, end);
    }
    assert!(kit.enqueue(job).await.created);
}

/// Rules E4, E5.
async fn idempotency_is_decided_before_uniqueness(kit: Kit) {
    let first = kit.enqueue_new(kit.new_job().idempotency_key("i").unique_key("u1")).await;
    let second = kit.enqueue_new(kit.new_job().unique_key("u2")).await;
    let both = kit.new_job().idempotency_key("i").unique_key("u2");
    assert_eq!(kit.enqueue(both).await, found(first));
    assert_eq!(kit.enqueue(kit.new_job().unique_key("u2")).await, found(second));
}

/// Rule E5.
async fn a_new_idempotency_key_stands_for_the_job_that_was_found(kit: Kit) {
    let id = kit.enqueue_new(kit.new_job().unique_key("u")).await;
    let repeated = kit.new_job().idempotency_key("i").unique_key("u");
    assert_eq!(kit.enqueue(repeated.clone()).await, found(id));
    let claimed = kit.claim_one().await;
    assert_done(&kit.complete(claimed.proof).await, State::Succeeded);
    assert_eq!(kit.enqueue(repeated).await, found(id), "the key outlives the job's end");
    assert!(kit.enqueue(kit.new_job().unique_key("u")).await.created);
}

/// The two kinds of key, each with a job in a queue of its own.
fn keyed(kit: &Kit) -> Vec<(Kit, NewJob)> {
    let (unique, once, both) = (kit.beside("unique"), kit.beside("once"), kit.beside("both"));
    vec![
        (unique.clone(), unique.new_job().unique_key("k")),
        (once.clone(), once.new_job().idempotency_key("k")),
        (both.clone(), both.new_job().unique_key("k").idempotency_key("k")),
    ]
}

/// Rules E4, E5. B46: never "exists" with nothing there.
async fn a_second_caller_creates_the_job_if_the_first_rolls_back(kit: Kit) {
    for (kit, job) in keyed(&kit) {
        let mut transaction = kit.begin().await;
        let first = transaction.enqueue(&job).await.unwrap();
        assert!(first.created);
        let second = kit.clone();
        let mut second = Box::pin(async move { second.enqueue(job).await });
        not_yet("the second enqueue", &mut second).await;
        transaction.rollback().await.unwrap();
        let second = within("the second enqueue", second).await;
        assert!(second.created);
        assert_eq!(kit.claim_ids(10).await, vec![second.id]);
    }
}

/// Rules E4, E5. B46.
async fn a_second_caller_gets_the_job_if_the_first_commits(kit: Kit) {
    for (kit, job) in keyed(&kit) {
        let mut transaction = kit.begin().await;
        let first = transaction.enqueue(&job).await.unwrap();
        let second = kit.clone();
        let mut second = Box::pin(async move { second.enqueue(job).await });
        not_yet("the second enqueue", &mut second).await;
        transaction.commit().await.unwrap();
        assert_eq!(within("the second enqueue", second).await, found(first.id));
        assert_eq!(kit.claim_ids(10).await, vec![first.id]);
    }
}

/// Rule E5. B46: the holder of the key ends in a transaction that is still open.
async fn an_enqueue_beside_the_end_of_its_unique_job_is_never_left_with_nothing(kit: Kit) {
    for commits in [true, false] {
        let kit = kit.beside(if commits { "commits" } else { "rolls back" });
        let job = kit.new_job().unique_key("u");
        let holder = kit.running(job.clone()).await;
        let mut transaction = kit.begin().await;
        let completion = Completion { proof: holder.proof, result: None };
        transaction.complete(WORKER, &completion).await.unwrap();
        let other = kit.clone();
        let mut second = Box::pin(async move { other.enqueue(job).await });
        let early = tokio::time::timeout(GLANCE, &mut second).await.ok();
        if commits {
            transaction.commit().await.unwrap();
        } else {
            transaction.rollback().await.unwrap();
        }
        let answer = match early {
            Some(early) => {
                assert_eq!(early, found(holder.proof.job), "it has not ended yet");
                early
            }
            // An engine that looks without a lock may have looked before the end, and answered after it.
            None => within("the second enqueue", second).await,
        };
        assert_eq!(answer.created, answer.id != holder.proof.job);
        assert!(commits || !answer.created, "two jobs with one unique key");
        let next = kit.enqueue(kit.new_job().unique_key("u")).await;
        assert_eq!(next.created, commits && !answer.created, "the key is free if its job has ended");
        assert!(!kit.state(next.id).await.is_final());
    }
}

/// Rules E5, X3. B46.
async fn enqueues_beside_a_worker_that_ends_their_unique_jobs_all_have_a_job(kit: Kit) {
    let done = Arc::new(AtomicBool::new(false));
    let worker = {
        let (kit, done) = (kit.clone(), done.clone());
        tokio::spawn(async move {
            let mut ended = HashSet::new();
            loop {
                let last = done.load(Ordering::SeqCst);
                for job in kit.claim_n(10).await {
                    assert_done(&kit.complete(job.proof).await, State::Succeeded);
                    assert!(ended.insert(job.proof.job), "two claims got one job");
                }
                if last {
                    return ended;
                }
            }
        })
    };
    let producers = (0..4).map(|_| {
        let kit = kit.clone();
        tokio::spawn(async move {
            let mut answers = Vec::new();
            for _ in 0..40 {
                answers.push(kit.enqueue(kit.new_job().unique_key("u")).await);
            }
            answers
        })
    });
    let answers = within("the producers", join_all(producers)).await;
    let answers: Vec<Enqueued> = answers.into_iter().flat_map(Result::unwrap).collect();
    done.store(true, Ordering::SeqCst);
    let ended = within("the worker", worker).await.unwrap();
    let created: Vec<JobId> =
        answers.iter().filter(|answer| answer.created).map(|answer| answer.id).collect();
    assert_eq!(created.iter().copied().collect::<HashSet<_>>().len(), created.len());
    assert_eq!(ended, created.into_iter().collect(), "what was created ran, and nothing else");
    assert!(answers.iter().all(|answer| ended.contains(&answer.id)), "an answer names a job that never was");
}

/// Enqueues this job from twenty tasks at once, half of them in bulk; exactly one may create it.
async fn twenty_callers(kit: &Kit, job: NewJob) {
    let callers = (0..20).map(|n| {
        let (backend, job, mut jobs) = (kit.backend_shared(), job.clone(), Vec::new());
        if n % 2 == 1 {
            jobs.extend([kit.new_job(), kit.new_job()]);
        }
        jobs.insert(jobs.len() / 2, job);
        tokio::spawn(async move { backend.enqueue(&jobs).await.unwrap()[jobs.len() / 2] })
    });
    let answers: Vec<Enqueued> = join_all(callers).await.into_iter().map(Result::unwrap).collect();
    let created: Vec<&Enqueued> = answers.iter().filter(|answer| answer.created).collect();
    assert_eq!(created.len(), 1, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.id == created[0].id), "{answers:?}");
    assert_eq!(kit.state(created[0].id).await, State::Ready);
}

/// Rule E5. B46.
async fn twenty_callers_with_one_unique_key_create_one_job(kit: Kit) {
    twenty_callers(&kit, kit.new_job().unique_key("one")).await;
    assert_eq!(kit.count("job", "unique_key IS NOT NULL").await, 1);
    assert_eq!(kit.count("job", "1 = 1").await, 21);
}

/// Rule E4. B48.
async fn twenty_callers_with_one_idempotency_key_create_one_job(kit: Kit) {
    twenty_callers(&kit, kit.new_job().idempotency_key("one")).await;
    assert_eq!(kit.count("enqueue_key", "1 = 1").await, 1);
    assert_eq!(kit.count("job", "1 = 1").await, 21);
}

/// Rule E7.
async fn two_rows_of_one_call_with_the_same_key_give_one_job(kit: Kit) {
    let unique = |key: &str| kit.new_job().unique_key(key);
    let once = |key: &str| kit.new_job().idempotency_key(key);
    let jobs =
        [unique("b"), once("b"), unique("a"), unique("b"), once("b"), kit.new_job(), once("b"), unique("a")];
    let answers = kit.backend().enqueue(&jobs).await.unwrap();
    let created: Vec<bool> = answers.iter().map(|answer| answer.created).collect();
    assert_eq!(created, [true, true, true, false, false, true, false, false]);
    let ids: Vec<JobId> = answers.iter().map(|answer| answer.id).collect();
    assert_eq!((ids[3], ids[4], ids[6], ids[7]), (ids[0], ids[1], ids[1], ids[2]));
    let distinct: HashSet<JobId> = ids.into_iter().collect();
    assert_eq!(distinct.len(), 4);
    assert_eq!(kit.count("job", "1 = 1").await, 4);
    // The first row makes the job, wherever its other key stands in key order.
    let both = |key: &str, once: &str| kit.new_job().unique_key(key).idempotency_key(once);
    let jobs = [both("c", "2"), both("c", "1"), both("e", "3"), both("d", "3")];
    let answers = kit.backend().enqueue(&jobs).await.unwrap();
    assert_eq!(answers.iter().map(|answer| answer.created).collect::<Vec<_>>(), [true, false, true, false]);
    assert_eq!((answers[1].id, answers[3].id), (answers[0].id, answers[2].id));
    assert_eq!(kit.job(answers[2].id).await.unique_key.as_deref(), Some("e"));
    assert_eq!(kit.enqueue(once("1")).await, found(answers[0].id));
}

/// Rules E7, X3.
async fn bulk_calls_with_crossing_keys_do_not_deadlock(kit: Kit) {
    const KEYS: usize = 101;
    for round in 0..4 {
        let callers = (0..8).map(|caller| {
            let (backend, kit) = (kit.backend_shared(), kit.clone());
            // Steps that have no factor in common with the number of keys visit each key once, in another order.
            let jobs: Vec<NewJob> = (0..KEYS)
                .map(|n| format!("{round}/{}", (n * (caller * 11 + 1) + caller) % KEYS))
                .map(|key| {
                    match caller % 3 {
                        0 => kit.new_job().unique_key(key),
                        1 => kit.new_job().idempotency_key(key),
                        // In the opposite order of its unique key.
                        _ => kit
                            .new_job()
                            .idempotency_key(format!("-{}", key.chars().rev().collect::<String>()))
                            .unique_key(key),
                    }
                })
                .collect();
            tokio::spawn(async move { backend.enqueue(&jobs).await })
        });
        let answers = within("eight bulk calls", join_all(callers)).await;
        let created = answers
            .into_iter()
            .flat_map(|answer| answer.unwrap().expect("no caller sees a deadlock"))
            .filter(|answer| answer.created)
            .count();
        assert_eq!(created, 2 * KEYS, "round {round}");
    }
}
