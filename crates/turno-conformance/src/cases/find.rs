//! Search by a key.

use turno_contract::{ErrorKind, JobId, JobsPage, KeySearch, NewJob, Retry, limits};

use crate::Kit;
use crate::kit::refused_as;

super::cases! {
    Nothing: [
        a_unique_key_finds_its_jobs_in_every_state,
        an_idempotency_key_finds_the_job_that_it_stands_for,
        a_key_is_found_in_all_queues_or_in_one,
        keys_are_compared_byte_for_byte,
        pages_go_by_id_from_the_newest_down,
        a_search_has_limits,
    ],
}

/// A key that no other case has.
fn key_of(kit: &Kit, name: &str) -> String {
    format!("{name} of {}", kit.queue())
}

async fn search(kit: &Kit, search: &KeySearch) -> Vec<JobId> {
    let page = kit.backend().find(search).await.unwrap();
    assert_eq!(page.searched_to, None);
    page.jobs.into_iter().map(|job| job.id).collect()
}

async fn find(kit: &Kit, key: &str) -> Vec<JobId> {
    search(kit, &KeySearch::new(key, 100)).await
}

/// Rule V7.
async fn a_unique_key_finds_its_jobs_in_every_state(kit: Kit) {
    let key = key_of(&kit, "order 7");
    let job = || kit.new_job().unique_key(&key);
    let succeeded = kit.running(job()).await.proof;
    assert_eq!(find(&kit, &key).await, vec![succeeded.job]);
    kit.complete(succeeded).await;
    let dead = kit.running(job()).await.proof;
    kit.fail(dead, "no", Retry::Never).await;
    let cancelled = kit.enqueue_new(job()).await;
    kit.backend().cancel(cancelled, false).await.unwrap();
    let ready = kit.enqueue_new(job()).await;
    kit.enqueue_one().await;
    assert_eq!(find(&kit, &key).await, vec![ready, cancelled, dead.job, succeeded.job]);
    let found = kit.backend().find(&KeySearch::new(&key, 1)).await.unwrap();
    assert_eq!(found, JobsPage { jobs: vec![kit.job(ready).await], searched_to: None });
    kit.forget(dead.job).await;
    assert_eq!(find(&kit, &key).await, vec![ready, cancelled, succeeded.job]);
    assert_eq!(find(&kit, &key_of(&kit, "order 8")).await, vec![]);
}

/// Rules V7, E4.
async fn an_idempotency_key_finds_the_job_that_it_stands_for(kit: Kit) {
    let (first, second, unique) = (key_of(&kit, "first"), key_of(&kit, "second"), key_of(&kit, "unique"));
    let job = |key: &str| kit.new_job().idempotency_key(key).unique_key(&unique);
    let running = kit.running(job(&first)).await.proof;
    assert!(!kit.enqueue(job(&second)).await.created, "the unique key finds the running job");
    for key in [&first, &second, &unique] {
        assert_eq!(find(&kit, key).await, vec![running.job], "{key}");
    }
    kit.complete(running).await;
    for key in [&first, &second, &unique] {
        assert_eq!(find(&kit, key).await, vec![running.job], "{key}, ended");
    }
    // One key of both sorts, for two jobs: both are found, each once.
    let other = kit.enqueue_new(kit.new_job().idempotency_key(&unique)).await;
    assert_eq!(find(&kit, &unique).await, vec![other, running.job]);
    kit.forget(running.job).await;
    assert_eq!(find(&kit, &first).await, vec![]);
    assert_eq!(find(&kit, &unique).await, vec![other]);
}

/// Rule V7.
async fn a_key_is_found_in_all_queues_or_in_one(kit: Kit) {
    let key = key_of(&kit, "shared");
    let (left, right, ended) = (kit.beside("left"), kit.beside("right"), kit.beside("ended"));
    let job = |kit: &Kit| kit.new_job().unique_key(&key).idempotency_key(&key);
    let in_left = left.enqueue_new(job(&left)).await;
    let in_right = right.running(job(&right)).await.proof.job;
    let in_ended = ended.running(job(&ended)).await.proof;
    ended.complete(in_ended).await;
    assert_eq!(find(&kit, &key).await, vec![in_ended.job, in_right, in_left]);
    for (of, id) in [(&left, in_left), (&right, in_right), (&ended, in_ended.job)] {
        let in_one = KeySearch { queue: Some(of.queue().to_owned()), ..KeySearch::new(&key, 10) };
        assert_eq!(search(&kit, &in_one).await, vec![id]);
    }
    let nowhere = KeySearch { queue: Some(kit.queue().to_owned()), ..KeySearch::new(&key, 10) };
    assert_eq!(search(&kit, &nowhere).await, vec![]);
}

/// Rules V7, E8. B59.
async fn keys_are_compared_byte_for_byte(kit: Kit) {
    let keys = ["%", "a_c", "abc", "A_C", "a_c ", "'", "é", "e\u{301}", "📮"].map(|key| key_of(&kit, key));
    let keys = keys.iter().flat_map(|key| [key.clone(), format!("{key} ")]).collect::<Vec<_>>();
    let mut ids = Vec::new();
    for (n, key) in keys.iter().enumerate() {
        let job = NewJob::new(kit.queue(), "k", "1");
        let job = if n % 3 == 0 { job.idempotency_key(key) } else { job.unique_key(key) };
        ids.push(kit.enqueue_new(job).await);
    }
    for done in [false, true] {
        for (key, id) in keys.iter().zip(&ids) {
            assert_eq!(find(&kit, key).await, vec![*id], "{key:?}, ended: {done}");
        }
        if !done {
            for job in kit.claim_n(100).await {
                kit.complete(job.proof).await;
            }
        }
    }
}

/// Rules V2, V7.
async fn pages_go_by_id_from_the_newest_down(kit: Kit) {
    let key = key_of(&kit, "again and again");
    let mut expected = Vec::new();
    for _ in 0..7 {
        let proof = kit.running(kit.new_job().unique_key(&key)).await.proof;
        kit.complete(proof).await;
        expected.insert(0, proof.job);
    }
    let mut page = KeySearch::new(&key, 3);
    let mut seen = Vec::new();
    loop {
        let found = kit.backend().find(&page).await.unwrap();
        let next = found.next(page.limit);
        seen.extend(found.jobs.into_iter().map(|job| job.id));
        let Some(next) = next else { break };
        assert!(page.before.is_none_or(|before| next < before), "a page repeats the one before");
        page.before = Some(next);
    }
    assert_eq!(seen, expected);
}

/// Rules V2, E8, E9.
async fn a_search_has_limits(kit: Kit) {
    for limit in [0, limits::PAGE_ROWS_MAX + 1] {
        refused_as(kit.backend().find(&KeySearch::new("k", limit)).await, ErrorKind::InvalidArgument);
    }
    for key in ["".to_owned(), "nul \0".to_owned(), "k".repeat(limits::KEY_BYTES_MAX + 1)] {
        refused_as(kit.backend().find(&KeySearch::new(key, 1)).await, ErrorKind::InvalidArgument);
    }
    let longest = "k".repeat(limits::KEY_BYTES_MAX);
    assert!(kit.backend().find(&KeySearch::new(longest, 1)).await.is_ok());
}
