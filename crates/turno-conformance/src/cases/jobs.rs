//! Listings of jobs.

use std::time::Duration;

use turno_contract::{Completion, ErrorKind, JobFilter, JobId, KeySearch, NewJob, Retry, State, limits};

use crate::Kit;
use crate::kit::{WORKER, refused_as, within};

super::cases! {
    Nothing: [
        pages_go_by_key_from_the_newest_down,
        every_state_has_its_listing,
        filters_take_names_literally,
        a_page_has_limits,
    ],
    RowLocks: [looking_waits_for_nobody],
    // Ten thousand jobs at a time are no company for the others.
    Alone: [a_state_of_few_jobs_is_found_among_many, a_search_that_stops_says_where_and_goes_on],
}

fn filter(kit: &Kit, state: State) -> JobFilter {
    JobFilter { state, queue: Some(kit.queue().to_owned()), kind: None, before: None, limit: 1000 }
}

async fn list(kit: &Kit, filter: &JobFilter) -> Vec<JobId> {
    let page = kit.backend().jobs(filter).await.unwrap();
    assert_eq!(page.searched_to, None, "few jobs are always found");
    page.jobs.into_iter().map(|job| job.id).collect()
}

/// Every job of a filter, page by page, and how many pages ended early.
async fn every(kit: &Kit, filter: &JobFilter) -> (Vec<JobId>, usize) {
    let (mut filter, mut ids, mut early) = (filter.clone(), Vec::new(), 0);
    loop {
        let page = kit.backend().jobs(&filter).await.unwrap();
        let next = page.next(filter.limit);
        if let Some(stop) = page.searched_to {
            assert!(page.jobs.iter().all(|job| job.id >= stop), "nothing below the place where it stopped");
            assert!(page.jobs.len() < filter.limit as usize, "a full page needs no word about it");
            early += 1;
        }
        ids.extend(page.jobs.into_iter().map(|job| job.id));
        let Some(next) = next else { return (ids, early) };
        assert!(filter.before.is_none_or(|before| next < before), "a search that does not move");
        filter.before = Some(next);
    }
}

/// Rule V8. A query that locks what it reads does not end before the transaction does.
async fn looking_waits_for_nobody(kit: Kit) {
    let job = kit.running_one().await;
    let held = kit.enqueue_new(kit.new_job().unique_key("key")).await;
    let mut transaction = kit.begin().await;
    transaction.complete(WORKER, &Completion { proof: job.proof, result: None }).await.unwrap();
    transaction.lock(held).await.unwrap();
    within("every look", async {
        let backend = kit.backend();
        for state in State::ALL {
            for queue in [None, Some(kit.queue().to_owned())] {
                backend.jobs(&JobFilter { queue, ..filter(&kit, *state) }).await.unwrap();
            }
        }
        for queue in [None, Some(kit.queue().to_owned())] {
            let page = backend.find(&KeySearch { queue, ..KeySearch::new("key", 1000) }).await.unwrap();
            assert!(page.jobs.iter().any(|job| job.id == held));
        }
        assert_eq!(kit.state(job.proof.job).await, State::Running);
        assert_eq!(kit.state(held).await, State::Ready);
        backend.attempts(job.proof.job).await.unwrap();
        backend.refused(None, None, 1000).await.unwrap();
        backend.held(job.proof.token).await.unwrap();
        backend.stats(Duration::from_secs(3600)).await.unwrap();
        backend.queue_list().await.unwrap();
        backend.schedule_list(None, None, 1000).await.unwrap();
        backend.unhandled(kit.queue()).await.unwrap();
        backend.audit().await.unwrap();
    })
    .await;
    transaction.rollback().await.unwrap();
}

/// More jobs than a page looks at, all of one kind, newer than what was there before.
const CROWD: usize = limits::LOOKED_AT_MAX as usize + 50;

/// Claims and completes the crowd.
async fn complete_crowd(kit: &Kit) {
    let mut left = CROWD;
    while left > 0 {
        let jobs = kit.claim_n(1000).await;
        assert!(!jobs.is_empty(), "{left} of the crowd are left");
        left -= jobs.len();
        let completions: Vec<Completion> =
            jobs.iter().map(|job| Completion { proof: job.proof, result: None }).collect();
        kit.backend().complete(WORKER, &completions).await.unwrap();
    }
}

/// Rule V2. B37: rows that come in between shift no page.
async fn pages_go_by_key_from_the_newest_down(kit: Kit) {
    let mut all = kit.enqueue_n(25).await;
    all.reverse();
    let mut page = JobFilter { limit: 10, ..filter(&kit, State::Ready) };
    let mut seen = Vec::new();
    loop {
        let ids = list(&kit, &page).await;
        kit.enqueue_n(3).await;
        let Some(last) = ids.last() else { break };
        assert!(page.before.is_none_or(|before| *last < before), "a page repeats the one before");
        page.before = Some(*last);
        seen.extend(ids);
    }
    assert_eq!(seen, all);
    for job in kit.claim_n(25).await {
        kit.complete(job.proof).await;
    }
    let page = JobFilter { limit: 7, before: Some(all[3]), ..filter(&kit, State::Succeeded) };
    assert_eq!(list(&kit, &page).await, all[4..11]);
}

/// Rule V2.
async fn every_state_has_its_listing(kit: Kit) {
    let scheduled = kit.scheduled(std::time::Duration::from_secs(1000)).await;
    let succeeded = kit.running_one().await;
    kit.complete(succeeded.proof).await;
    let dead = kit.running_one().await;
    kit.fail(dead.proof, "no", Retry::Never).await;
    let cancelled = kit.enqueue_one().await;
    kit.backend().cancel(cancelled, false).await.unwrap();
    let running = kit.running_one().await;
    let ready = kit.enqueue_one().await;
    let expected = [scheduled, ready, running.proof.job, succeeded.proof.job, dead.proof.job, cancelled];
    for (state, id) in State::ALL.iter().zip(expected) {
        assert_eq!(list(&kit, &filter(&kit, *state)).await, vec![id], "{state}");
        let listed = kit.backend().jobs(&filter(&kit, *state)).await.unwrap().jobs.remove(0);
        assert_eq!(listed, kit.job(id).await);
    }
    let everywhere =
        JobFilter { queue: None, before: Some(JobId(ready.0 + 1)), limit: 1, ..filter(&kit, State::Ready) };
    assert_eq!(list(&kit, &everywhere).await, vec![ready]);
}

/// Rule V2. B59.
async fn filters_take_names_literally(kit: Kit) {
    let job = |kind: &str| NewJob::new(kit.queue(), kind, "1");
    let kinds = ["%", "a_c", "abc", "A_C", "a_c ", "'", "*"];
    let mut ids = Vec::new();
    for kind in kinds {
        ids.push(kit.enqueue_new(job(kind)).await);
    }
    for (kind, id) in kinds.iter().zip(ids) {
        let by_kind = JobFilter { kind: Some((*kind).to_owned()), ..filter(&kit, State::Ready) };
        assert_eq!(list(&kit, &by_kind).await, vec![id], "kind {kind:?}");
        let queue = kit.queue().replace('_', "%");
        let elsewhere = JobFilter { queue: Some(queue), ..by_kind };
        assert_eq!(list(&kit, &elsewhere).await, vec![]);
    }
}

/// Rule V6. B37: what a queue has few of is found at once, however many jobs came after it.
async fn a_state_of_few_jobs_is_found_among_many(kit: Kit) {
    let (quiet, crowd) = (kit.beside("quiet"), kit.beside("crowd"));
    let succeeded = quiet.running_one().await.proof;
    quiet.complete(succeeded).await;
    let running = quiet.running_one().await.proof.job;
    let scheduled = quiet.scheduled(std::time::Duration::from_secs(1000)).await;
    let ready = quiet.enqueue_one().await;
    crowd.enqueue_n(CROWD).await;
    for (state, id) in [(State::Scheduled, scheduled), (State::Ready, ready), (State::Running, running)] {
        assert_eq!(list(&quiet, &filter(&quiet, state)).await, vec![id], "{state}");
    }
    let other_kind = JobFilter { kind: Some("other".into()), ..filter(&quiet, State::Ready) };
    assert_eq!(list(&quiet, &other_kind).await, vec![]);
    let below = JobFilter { before: Some(ready), ..filter(&quiet, State::Ready) };
    assert_eq!(list(&quiet, &below).await, vec![]);
    complete_crowd(&crowd).await;
    assert_eq!(list(&quiet, &filter(&quiet, State::Succeeded)).await, vec![succeeded.job]);
}

/// Rule V6: never "no such job" after a part of them, and never a page that reads them all.
async fn a_search_that_stops_says_where_and_goes_on(kit: Kit) {
    let rare = NewJob::new(kit.queue(), "rare", "1");
    let mut expected = vec![kit.enqueue_new(rare.clone()).await];
    kit.enqueue_n(CROWD - 2).await;
    expected.insert(0, kit.enqueue_new(rare).await);
    for state in [State::Ready, State::Succeeded] {
        let wanted = JobFilter { kind: Some("rare".into()), ..filter(&kit, state) };
        let first = kit.backend().jobs(&wanted).await.unwrap();
        assert!(first.jobs.len() < 2 && first.searched_to.is_some(), "{state}: {first:?}");
        let (ids, early) = every(&kit, &wanted).await;
        assert_eq!(ids, expected, "{state}, after {early} pages that ended early");
        // Of all queues there is nothing that an index could tell.
        let everywhere = JobFilter { queue: None, ..wanted };
        let (ids, _) = every(&kit, &everywhere).await;
        assert!(expected.iter().all(|id| ids.contains(id)), "{state}: {ids:?}");
        if state == State::Ready {
            complete_crowd(&kit).await;
        }
    }
}

/// Rules V2, E9.
async fn a_page_has_limits(kit: Kit) {
    kit.enqueue_n(3).await;
    for limit in [0, limits::PAGE_ROWS_MAX + 1, u32::MAX] {
        let page = JobFilter { limit, ..filter(&kit, State::Ready) };
        refused_as(kit.backend().jobs(&page).await, ErrorKind::InvalidArgument);
    }
    let page = JobFilter { limit: 2, ..filter(&kit, State::Ready) };
    assert_eq!(list(&kit, &page).await.len(), 2);
}
