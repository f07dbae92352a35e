//! Recording a refusal that happened inside a caller's transaction.

use turno_contract::{ErrorKind, JobId, Proof, Refused, State, Token, Verb, limits};

use crate::Kit;
use crate::kit::{refused_as, stolen};

super::cases! {
    Nothing: [
        it_records_who_and_what_and_who_owns_the_job,
        repeats_count_up_one_row,
        a_job_without_a_record_is_recorded_all_the_same,
        details_of_any_length_are_cut,
        a_worker_name_outside_the_rule_is_refused,
    ],
}

fn refused(proof: Proof, verb: Verb, detail: &str) -> Refused {
    Refused { proof, verb, detail: Some(detail.to_owned()) }
}

/// Rules S5, S7.
async fn it_records_who_and_what_and_who_owns_the_job(kit: Kit) {
    let job = kit.running_one().await;
    let wrong = Proof { attempt: 7, ..stolen(job.proof) };
    kit.backend().refused_record("late", &refused(wrong, Verb::Fail, "why")).await.unwrap();
    let line = crate::kit::only(kit.refused(job.proof.job).await);
    assert_eq!((line.job, line.attempt, line.verb), (job.proof.job, 7, Verb::Fail));
    assert_eq!((line.worker.as_deref(), line.detail.as_deref()), (Some("late"), Some("why")));
    assert_eq!((line.owner.as_deref(), line.owner_attempt), (Some(crate::kit::WORKER), Some(1)));
    assert_eq!((line.state, line.times), (Some(State::Running), 1));
    assert!(kit.is_held(job.proof).await);
}

/// Rule S7.
async fn repeats_count_up_one_row(kit: Kit) {
    let job = kit.running_one().await;
    let wrong = stolen(job.proof);
    for _ in 0..5 {
        kit.backend().refused_record("late", &refused(wrong, Verb::Complete, "1")).await.unwrap();
    }
    let line = crate::kit::only(kit.refused(job.proof.job).await);
    assert_eq!(line.times, 5);
    kit.backend().refused_record("late", &refused(wrong, Verb::Release, "1")).await.unwrap();
    let lines = kit.refused(job.proof.job).await;
    assert_eq!(
        lines.iter().map(|line| (line.verb, line.times)).collect::<Vec<_>>(),
        [(Verb::Release, 1), (Verb::Complete, 5)]
    );
}

/// Rules S6, S7.
async fn a_job_without_a_record_is_recorded_all_the_same(kit: Kit) {
    let job = kit.running_one().await;
    kit.complete(job.proof).await;
    kit.forget(job.proof.job).await;
    let id = JobId(job.proof.job.0);
    let proof = Proof { job: id, attempt: 1, token: Token::random() };
    kit.backend().refused_record("late", &refused(proof, Verb::Complete, "1")).await.unwrap();
    let line = crate::kit::only(kit.refused(id).await);
    assert_eq!((line.state, line.owner, line.owner_attempt), (None, None, None));
}

/// Rules S7, F6. B18.
async fn details_of_any_length_are_cut(kit: Kit) {
    let job = kit.running_one().await;
    let detail = format!("x\0{}", "€".repeat(1 << 20));
    kit.backend().refused_record("late", &refused(stolen(job.proof), Verb::Fail, &detail)).await.unwrap();
    let line = crate::kit::only(kit.refused(job.proof.job).await);
    let kept = line.detail.expect("a detail");
    assert!(kept.starts_with("x\u{fffd}€") && kept.ends_with('€'));
    assert!(kept.len() <= limits::ERROR_BYTES_MAX && kept.len() > limits::ERROR_BYTES_MAX - 4);
}

/// Rule E9.
async fn a_worker_name_outside_the_rule_is_refused(kit: Kit) {
    let job = kit.running_one().await;
    for worker in ["", "a\nb", &"w".repeat(201)] {
        let answer = kit.backend().refused_record(worker, &refused(stolen(job.proof), Verb::Fail, "1")).await;
        refused_as(answer, ErrorKind::InvalidArgument);
    }
    assert!(kit.refused(job.proof.job).await.is_empty());
}
