//! Listings of jobs.

use turno_contract::{ErrorKind, JobFilter, JobId, NewJob, Retry, State, limits};

use crate::Kit;
use crate::kit::refused_as;

super::cases! {
    Nothing: [
        pages_go_by_key_from_the_newest_down,
        every_state_has_its_listing,
        filters_take_names_literally,
        a_page_has_limits,
    ],
}

fn filter(kit: &Kit, state: State) -> JobFilter {
    JobFilter { state, queue: Some(kit.queue().to_owned()), kind: None, before: None, limit: 1000 }
}

async fn list(kit: &Kit, filter: &JobFilter) -> Vec<JobId> {
    kit.backend().jobs(filter).await.unwrap().into_iter().map(|job| job.id).collect()
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
        let listed = kit.backend().jobs(&filter(&kit, *state)).await.unwrap().remove(0);
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
