//! The ledger of refused results.

use turno_contract::{ErrorKind, Proof, Refused, State, Verb, limits};

use crate::Kit;
use crate::kit::{assert_refused, refused_as, stolen};

super::cases! {
    Nothing: [
        pages_go_by_key_from_the_newest_down,
        a_hundred_rows_a_job_and_later_ones_only_count,
        answer_and_ledger_row_say_the_same,
        a_page_has_limits,
    ],
}

/// Rules S7, V2.
async fn pages_go_by_key_from_the_newest_down(kit: Kit) {
    let (first, second) = (kit.running_one().await.proof, kit.running_one().await.proof);
    for attempt in 10..16 {
        for proof in [first, second] {
            assert_refused(&kit.complete(Proof { attempt, ..proof }).await, State::Running);
        }
    }
    let (mut before, mut seen) = (None, Vec::new());
    loop {
        let page = kit.backend().refused(Some(first.job), before, 4).await.unwrap();
        assert!(page.len() <= 4 && page.iter().all(|line| line.job == first.job));
        let Some(last) = page.last() else { break };
        assert!(before.is_none_or(|before| last.id < before), "a page repeats the one before");
        before = Some(last.id);
        seen.extend(page.into_iter().map(|line| line.attempt));
    }
    assert_eq!(seen, [15, 14, 13, 12, 11, 10]);
    let newest = kit.refused(second.job).await.remove(0).id;
    let all = kit.backend().refused(None, Some(newest + 1), 2).await.unwrap();
    assert_eq!((all[0].id, all[0].job, all[0].attempt), (newest, second.job, 15));
    assert!(all[1].id < newest);
}

/// Rule S7. B18: a worker that goes mad does not fill the disk.
async fn a_hundred_rows_a_job_and_later_ones_only_count(kit: Kit) {
    let proof = kit.running_one().await.proof;
    let most = i64::from(limits::REFUSED_ROWS_PER_JOB_MAX);
    for attempt in 2..2 + most + 30 {
        let refused = Refused { proof: Proof { attempt, ..proof }, verb: Verb::Complete, detail: None };
        kit.backend().refused_record("mad", &refused).await.unwrap();
    }
    let lines = kit.refused(proof.job).await;
    assert_eq!(lines.len() as i64, most);
    assert_eq!(lines.iter().map(|line| line.times).sum::<i64>(), most + 30, "later ones count");
    let other = kit.running_one().await.proof;
    assert_refused(&kit.complete(stolen(other)).await, State::Running);
    assert_eq!(kit.refused(other.job).await.len(), 1, "another job has its own hundred");
}

/// Rules S3, S7.
async fn answer_and_ledger_row_say_the_same(kit: Kit) {
    let proof = kit.running_one().await.proof;
    let refused = kit.complete_with(stolen(proof), Some("[\"r\"]")).await;
    let line = crate::kit::only(kit.refused(proof.job).await);
    assert_eq!(Some(&line.reason), refused.reason.as_ref());
    assert_eq!((line.state, line.detail.as_deref()), (refused.state, Some("[\"r\"]")));
}

/// Rules V2, E9.
async fn a_page_has_limits(kit: Kit) {
    for limit in [0, limits::PAGE_ROWS_MAX + 1] {
        refused_as(kit.backend().refused(None, None, limit).await, ErrorKind::InvalidArgument);
    }
}
