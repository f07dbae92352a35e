//! Complete: exactly one completion is accepted, and a repeat is told from theft.

mod transaction;

use std::time::Duration;

use futures_util::future::join_all;
use turno_contract::{
    Completion, ErrorKind, JobId, Proof, Retry, Settled, SettledStatus, State, Token, Verb, limits,
};

use crate::Kit;
use crate::kit::{WORKER, assert_done, assert_near, assert_refused, refused_as, stolen, within};

super::cases! {
    Nothing: [
        a_completed_job_keeps_its_result_and_is_found_by_no_claim,
        every_part_of_the_proof_counts,
        the_same_completion_again_is_answered_from_the_record,
        another_verb_after_completion_is_refused,
        a_job_without_a_record_is_gone,
        results_outside_the_limits_are_refused,
        the_same_proof_twice_in_one_call_counts_once,
        a_wrong_proof_does_not_spoil_the_others_of_its_call,
        thousands_of_proofs_are_answered_in_input_order,
        two_completions_at_once_have_one_winner,
        completions_in_crossing_order_do_not_deadlock,
    ],
    Alone: [
        a_completion_after_the_lease_ended_is_accepted,
        the_completion_of_a_lost_claim_is_refused_and_recorded,
    ],
}

/// All cases of this operation.
pub(super) fn all() -> Vec<crate::Case> {
    [cases(), transaction::cases()].into_iter().flatten().collect()
}

/// Rules S1, O3, F7.
async fn a_completed_job_keeps_its_result_and_is_found_by_no_claim(kit: Kit) {
    let job = kit.running(kit.new_job().unique_key("u")).await;
    let settled = kit.complete_with(job.proof, Some("{\"ok\" : 1}")).await;
    assert_eq!(
        settled,
        Settled { status: SettledStatus::Done, state: Some(State::Succeeded), run_at: None, reason: None }
    );
    let record = kit.job(job.proof.job).await;
    assert_eq!((record.state, record.result.as_deref()), (State::Succeeded, Some("{\"ok\" : 1}")));
    assert_eq!((record.payload.as_deref(), record.error, record.lease_until), (Some("{}"), None, None));
    assert_eq!((record.worker.as_deref(), record.claimed_at), (Some(WORKER), Some(job.claimed_at)));
    assert_eq!((record.attempt, record.failures, record.operation_id), (1, 0, job.operation_id));
    assert_eq!((record.unique_key.as_deref(), record.created_at), (Some("u"), job.created_at));
    assert_near(record.finished_at.expect("an end"), kit.now().await, Duration::from_secs(60));
    assert_eq!(kit.claim_ids(10).await, vec![]);
    assert_eq!(kit.count("job", "1 = 1").await, 0);
    let attempt = crate::kit::only(kit.attempts(job.proof.job).await);
    assert_eq!((attempt.attempt, attempt.verb, attempt.charged), (1, Verb::Complete, false));
    assert_eq!((attempt.error, Some(attempt.ended_at)), (None, record.finished_at));
}

/// Rules O2, O4, S3.
async fn every_part_of_the_proof_counts(kit: Kit) {
    let job = kit.running_one().await;
    let before = kit.job(job.proof.job).await;
    let wrong = [
        stolen(job.proof),
        Proof { attempt: 0, ..job.proof },
        Proof { attempt: 2, ..job.proof },
        Proof { attempt: i64::MAX, ..job.proof },
    ];
    for wrong in wrong {
        assert_refused(&kit.complete(wrong).await, State::Running);
    }
    assert_eq!(kit.job(job.proof.job).await, before);
    assert!(kit.attempts(job.proof.job).await.is_empty());
    assert_eq!(kit.refused(job.proof.job).await.len(), 4);
    assert_done(&kit.complete(job.proof).await, State::Succeeded);
    assert_refused(&kit.complete(stolen(job.proof)).await, State::Succeeded);
}

/// Rule S4: the first result stands.
async fn the_same_completion_again_is_answered_from_the_record(kit: Kit) {
    let job = kit.running_one().await;
    assert_done(&kit.complete_with(job.proof, Some("1")).await, State::Succeeded);
    let before = kit.job(job.proof.job).await;
    for result in [Some("1"), Some("2"), None] {
        let again = kit.complete_with(job.proof, result).await;
        assert_eq!((again.status, again.state), (SettledStatus::Already, Some(State::Succeeded)));
    }
    assert_eq!(kit.job(job.proof.job).await, before);
    assert_eq!(kit.attempts(job.proof.job).await.len(), 1);
    assert!(kit.refused(job.proof.job).await.is_empty(), "a repeat is no refusal");
}

/// Rules S4, S7.
async fn another_verb_after_completion_is_refused(kit: Kit) {
    let job = kit.running_one().await;
    assert_done(&kit.complete(job.proof).await, State::Succeeded);
    for settled in [kit.fail(job.proof, "no", Retry::Never).await, kit.release(job.proof, None).await] {
        assert_refused(&settled, State::Succeeded);
        assert!(settled.reason.as_ref().unwrap().contains("already settled as"), "{settled:?}");
    }
    assert_eq!(kit.state(job.proof.job).await, State::Succeeded);
    let verbs: Vec<Verb> = kit.refused(job.proof.job).await.into_iter().map(|line| line.verb).collect();
    assert_eq!(verbs, vec![Verb::Release, Verb::Fail]);
}

/// Rule S6.
async fn a_job_without_a_record_is_gone(kit: Kit) {
    let job = kit.running_one().await;
    assert_done(&kit.complete(job.proof).await, State::Succeeded);
    kit.forget(job.proof.job).await;
    let never = Proof { job: JobId(i64::MAX - 7), attempt: 1, token: Token::random() };
    for proof in [job.proof, never] {
        let settled = [
            kit.complete(proof).await,
            kit.fail(proof, "late", Retry::Policy).await,
            kit.release(proof, None).await,
        ];
        for settled in settled {
            assert_eq!((settled.status, settled.state), (SettledStatus::Gone, None), "{settled:?}");
        }
    }
    assert_eq!(kit.refused(job.proof.job).await.len(), 3, "it is recorded in the ledger");
}

/// Rule E9.
async fn results_outside_the_limits_are_refused(kit: Kit) {
    let job = kit.running_one().await;
    let long = format!("\"{}\"", "r".repeat(limits::PAYLOAD_BYTES_MAX_DEFAULT - 1));
    let deep = format!("{}{}", "[".repeat(101), "]".repeat(101));
    for result in ["", "{", "nul", &long, &deep] {
        let completion = Completion { proof: job.proof, result: Some(result.to_owned()) };
        refused_as(kit.backend().complete(WORKER, &[completion]).await, ErrorKind::InvalidArgument);
    }
    assert_eq!(kit.state(job.proof.job).await, State::Running);
    let longest = format!("\"{}\"", "r".repeat(limits::PAYLOAD_BYTES_MAX_DEFAULT - 2));
    assert_done(&kit.complete_with(job.proof, Some(&longest)).await, State::Succeeded);
    assert!(kit.job(job.proof.job).await.result == Some(longest), "the longest result came back changed");
}

fn completion(proof: Proof, result: &str) -> Completion {
    Completion { proof, result: Some(result.to_owned()) }
}

async fn statuses(kit: &Kit, completions: &[Completion]) -> Vec<SettledStatus> {
    let answers = kit.backend().complete(WORKER, completions).await.unwrap();
    assert_eq!(answers.len(), completions.len());
    answers.into_iter().map(|answer| answer.status).collect()
}

/// Rule S4.
async fn the_same_proof_twice_in_one_call_counts_once(kit: Kit) {
    use SettledStatus::{Already, Done};
    kit.enqueue_n(2).await;
    let jobs = kit.claim_n(2).await;
    let (first, second) = (jobs[0].proof, jobs[1].proof);
    let calls =
        [completion(second, "1"), completion(first, "2"), completion(second, "3"), completion(second, "4")];
    assert_eq!(statuses(&kit, &calls).await, vec![Done, Done, Already, Already]);
    assert_eq!(kit.job(second.job).await.result.as_deref(), Some("1"), "the first result stands");
}

/// Rules O2, S3.
async fn a_wrong_proof_does_not_spoil_the_others_of_its_call(kit: Kit) {
    use SettledStatus::{Done, Gone, Refused};
    kit.enqueue_n(2).await;
    let (first, second) = (kit.claim_one().await.proof, kit.claim_one().await.proof);
    let calls = [
        completion(stolen(first), "1"),
        completion(Proof { job: JobId(i64::MAX - 9), ..first }, "1"),
        completion(first, "2"),
        completion(Proof { token: first.token, ..second }, "3"),
        completion(second, "4"),
    ];
    assert_eq!(statuses(&kit, &calls).await, vec![Refused, Gone, Done, Refused, Done]);
    assert_eq!(kit.job(first.job).await.result.as_deref(), Some("2"));
    assert_eq!(kit.job(second.job).await.result.as_deref(), Some("4"));
}

/// Rule S3. B61.
async fn thousands_of_proofs_are_answered_in_input_order(kit: Kit) {
    kit.enqueue_n(2500).await;
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.extend(kit.claim_n(1000).await);
    }
    jobs.reverse();
    let calls: Vec<Completion> = jobs
        .iter()
        .enumerate()
        .map(|(n, job)| completion(if n % 9 == 4 { stolen(job.proof) } else { job.proof }, &n.to_string()))
        .collect();
    let answers = kit.backend().complete(WORKER, &calls).await.unwrap();
    assert_eq!(answers.len(), 2500);
    for (n, answer) in answers.iter().enumerate() {
        let expected = if n % 9 == 4 { SettledStatus::Refused } else { SettledStatus::Done };
        assert_eq!(answer.status, expected, "{n}: {answer:?}");
    }
    assert_eq!(kit.job(jobs[2400].proof.job).await.result.as_deref(), Some("2400"));
    let left = (0..2500).filter(|n| n % 9 == 4).count() as i64;
    assert_eq!(kit.count("job", "state = 'running'").await, left);
    assert_eq!(kit.count("finished_job", "outcome = 'succeeded'").await, 2500 - left);
}

/// Rules S4, X1.
async fn two_completions_at_once_have_one_winner(kit: Kit) {
    for round in 0..20 {
        let job = kit.running_one().await;
        let calls = (0..4).map(|n| {
            let (kit, result) = (kit.clone(), n.to_string());
            tokio::spawn(async move { (kit.complete_with(job.proof, Some(&result)).await.status, result) })
        });
        let answers: Vec<_> = join_all(calls).await.into_iter().map(Result::unwrap).collect();
        let (done, others): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|(status, _)| *status == SettledStatus::Done);
        assert_eq!(done.len(), 1, "round {round}");
        assert!(others.iter().all(|(status, _)| *status == SettledStatus::Already), "{others:?}");
        assert_eq!(kit.job(job.proof.job).await.result.as_ref(), Some(&done[0].1));
    }
}

/// Rule X3.
async fn completions_in_crossing_order_do_not_deadlock(kit: Kit) {
    kit.enqueue_n(400).await;
    let proofs: Vec<Proof> = kit.claim_n(400).await.into_iter().map(|job| job.proof).collect();
    let calls = (0..6).map(|caller| {
        let mut calls: Vec<Completion> = proofs.iter().map(|proof| completion(*proof, "1")).collect();
        calls.rotate_left(caller * 61);
        if caller % 2 == 1 {
            calls.reverse();
        }
        let kit = kit.clone();
        tokio::spawn(async move { statuses(&kit, &calls).await })
    });
    let answers = within("six completions", join_all(calls)).await;
    let answers: Vec<SettledStatus> = answers.into_iter().flat_map(Result::unwrap).collect();
    let done = answers.iter().filter(|status| **status == SettledStatus::Done).count();
    assert_eq!(done, 400);
    assert!(answers.iter().all(|status| matches!(status, SettledStatus::Done | SettledStatus::Already)));
}

/// Rule O5.
async fn a_completion_after_the_lease_ended_is_accepted(kit: Kit) {
    let job = kit.running_one().await;
    kit.age(Duration::from_secs(30 * 24 * 3600)).await;
    assert_done(&kit.complete(job.proof).await, State::Succeeded);
    assert_eq!(kit.reap_all().await, vec![]);
    assert_eq!(kit.state(job.proof.job).await, State::Succeeded);
}

/// Rules R2, S3, S7, O4. B01, B05: a worker that lost its claim changes nothing, and what it did stays visible.
async fn the_completion_of_a_lost_claim_is_refused_and_recorded(kit: Kit) {
    let lost = kit.running_one().await;
    kit.expire().await;
    assert_eq!(kit.reap_all().await.len(), 1);
    kit.age(Duration::from_secs(3600)).await;
    kit.promote().await;
    let mut request = kit.request(1);
    request.worker = "worker-2".to_owned();
    let owner = kit.claim_with(&request).await.remove(0);
    assert_eq!(owner.proof.job, lost.proof.job);
    let before = kit.job(lost.proof.job).await;
    for _ in 0..3 {
        assert_refused(&kit.complete_with(lost.proof, Some("\"late\"")).await, State::Running);
    }
    assert_eq!(kit.job(lost.proof.job).await, before);
    let line = crate::kit::only(kit.refused(lost.proof.job).await);
    assert_eq!((line.job, line.attempt, line.verb), (lost.proof.job, 1, Verb::Complete));
    assert_eq!((line.worker.as_deref(), line.detail.as_deref()), (Some(WORKER), Some("\"late\"")));
    assert_eq!((line.owner.as_deref(), line.owner_attempt), (Some("worker-2"), Some(2)));
    assert_eq!((line.state, line.times), (Some(State::Running), 3));
    assert!(!line.reason.is_empty() && line.first_at <= line.last_at);
    assert_done(&kit.complete(owner.proof).await, State::Succeeded);
}
