//! Audit: no row is out of reach of every rule. These cases run alone, since an audit looks at every queue.

use std::time::Duration;

use turno_contract::{Finding, Retry, SettingsChange};

use crate::Kit;
use crate::kit::quoted;

super::cases! {
    Alone: [
        a_job_in_every_state_is_in_order,
        a_rank_that_fits_no_place_is_found,
        a_key_that_stands_for_nothing_is_found_or_refused,
        the_whole_suite_leaves_nothing_out_of_reach,
    ],
}

async fn findings(kit: &Kit) -> Vec<Finding> {
    kit.backend().audit().await.unwrap()
}

/// Rule V3.
async fn a_job_in_every_state_is_in_order(kit: Kit) {
    for (round, aging) in [None, Some(Duration::from_secs(60)), None].into_iter().enumerate() {
        kit.set(SettingsChange { aging: Some(aging), ..Default::default() }).await;
        kit.enqueue_n(8).await;
        let jobs = kit.claim_n(5).await;
        kit.backend().reprioritize(jobs[0].proof.job, 5).await.unwrap();
        kit.complete(jobs[1].proof).await;
        kit.fail(jobs[2].proof, "no", Retry::Policy).await;
        kit.fail(jobs[3].proof, "no", Retry::Never).await;
        kit.release(jobs[4].proof, None).await;
        kit.enqueue_new(kit.new_job().priority(-7).idempotency_key(round.to_string())).await;
        let scheduled = kit.scheduled(Duration::from_secs(1000)).await;
        kit.backend().reprioritize(scheduled, 9).await.unwrap();
        assert_eq!(findings(&kit).await, vec![]);
        kit.expire().await;
        kit.reap_all().await;
        kit.promote().await;
        kit.backend().retry(jobs[3].proof.job).await.unwrap();
        assert_eq!(findings(&kit).await, vec![]);
    }
}

/// Rule V3.
async fn a_rank_that_fits_no_place_is_found(kit: Kit) {
    let id = kit.enqueue_one().await;
    let rank = kit.rig().column("rank");
    kit.update_job(id, &format!("{rank} = {rank} + 1000000")).await.unwrap();
    let found = findings(&kit).await;
    assert!(found.iter().any(|finding| finding.example == Some(id) && finding.rows >= 1), "{found:?}");
    assert!(found.iter().all(|finding| !finding.check.is_empty() && !finding.meaning.is_empty()));
    kit.update_job(id, &format!("{rank} = {rank} - 1000000")).await.unwrap();
    assert_eq!(findings(&kit).await, vec![]);
}

/// Rule V3.
async fn a_key_that_stands_for_nothing_is_found_or_refused(kit: Kit) {
    let (table, queue, key) = (kit.table("enqueue_key"), quoted(kit.queue()), kit.rig().column("key"));
    let sql =
        format!("INSERT INTO {table} (queue, {key}, job_id) VALUES ({queue}, 'k', 9223372036854775800)");
    // An engine may refuse the row by a foreign key; if it does not, the audit must find it.
    if kit.rig().execute(&sql).await.is_err() {
        return;
    }
    assert!(!findings(&kit).await.is_empty());
    kit.rig().execute(&format!("DELETE FROM {table} WHERE queue = {queue}")).await.unwrap();
    assert_eq!(findings(&kit).await, vec![]);
}

/// Rule V3. It is the last case of the suite, and looks at what all the others have left behind.
async fn the_whole_suite_leaves_nothing_out_of_reach(kit: Kit) {
    assert_eq!(findings(&kit).await, vec![]);
}
