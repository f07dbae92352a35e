//! What is kept of a failure: errors of any length and content, and every ended attempt.

use std::time::Duration;

use turno_contract::{Retry, SettledStatus, State, Verb, limits};

use crate::Kit;
use crate::kit::{WORKER, assert_done};

super::super::cases! {
    Nothing: [
        errors_of_any_length_are_recorded,
        errors_are_cut_at_a_character_boundary,
        errors_of_any_content_are_recorded,
        an_ended_attempt_says_who_and_when,
        the_first_and_the_last_hundred_attempts_are_kept,
    ],
}

/// What was kept of one error: its text, and its length before it was cut.
async fn recorded(kit: &Kit, error: &str) -> (String, i64) {
    let job = kit.running(kit.new_job().max_attempts(2)).await;
    assert_done(&kit.fail(job.proof, error, Retry::In(Duration::from_secs(1))).await, State::Scheduled);
    let first = crate::kit::only(kit.attempts(job.proof.job).await);
    kit.age(Duration::from_secs(2)).await;
    kit.promote().await;
    let job = kit.claim_one().await;
    assert_done(&kit.fail(job.proof, error, Retry::Policy).await, State::Dead);
    let last = kit.attempts(job.proof.job).await.pop().unwrap();
    assert!(last.error == first.error && last.error_bytes == first.error_bytes, "the two records differ");
    assert!(kit.job(job.proof.job).await.error == last.error, "the job's error is another");
    kit.forget(job.proof.job).await;
    (last.error.expect("an error"), last.error_bytes.expect("its length"))
}

/// Rule F6. B18: up to more than one engine's packet.
async fn errors_of_any_length_are_recorded(kit: Kit) {
    for bytes in [0, 1, 8191, 8192, 8193, 65_535, 65_536, 65_537, 1 << 20, 17 << 20] {
        let error = "e".repeat(bytes);
        let (kept, original) = recorded(&kit, &error).await;
        assert_eq!((kept.len(), original), (bytes.min(limits::ERROR_BYTES_MAX), bytes as i64));
        assert!(error.starts_with(&kept), "what is kept of {bytes} bytes is no beginning");
    }
}

/// Rule F6.
async fn errors_are_cut_at_a_character_boundary(kit: Kit) {
    for (character, kept_bytes) in [("é", 8192), ("€", 8190), ("😀", 8192)] {
        let error = character.repeat(5000);
        let (kept, original) = recorded(&kit, &error).await;
        assert_eq!((kept.len(), original), (kept_bytes, error.len() as i64), "{character}");
        assert!(error.starts_with(&kept));
    }
    let shifted = format!("x{}", "😀".repeat(5000));
    let (kept, _) = recorded(&kit, &shifted).await;
    assert_eq!(kept.len(), 8189);
}

/// Rule F6. B18, B20.
async fn errors_of_any_content_are_recorded(kit: Kit) {
    for error in
        ["O'Brien said \"\\\" %s $1 ?", "\u{1b}[31mred\u{1b}[0m\r\n\t", "\u{10ffff}\u{feff}שלום", "  "]
    {
        assert_eq!(recorded(&kit, error).await, (error.to_owned(), error.len() as i64));
    }
    assert_eq!(recorded(&kit, "a\0b\0").await, ("a\u{fffd}b\u{fffd}".to_owned(), 4));
    let (kept, original) = recorded(&kit, &"\0".repeat(8192)).await;
    assert!(kept.len() <= limits::ERROR_BYTES_MAX && kept.len() > limits::ERROR_BYTES_MAX - 3);
    assert!(kept.chars().all(|c| c == '\u{fffd}'));
    assert_eq!(original, 8192);
}

/// Rule F7.
async fn an_ended_attempt_says_who_and_when(kit: Kit) {
    let id = kit.enqueue_one().await;
    let mut claims = Vec::new();
    for n in 1..=3 {
        let mut request = kit.request(1);
        request.worker = format!("worker-{n}");
        let job = kit.claim_with(&request).await.remove(0);
        match n {
            1 => assert_done(
                &kit.fail(job.proof, "first", Retry::In(Duration::from_secs(1))).await,
                State::Scheduled,
            ),
            2 => assert_done(&kit.release(job.proof, Some(Duration::from_secs(1))).await, State::Scheduled),
            _ => assert_done(&kit.complete(job.proof).await, State::Succeeded),
        }
        claims.push(job);
        if n < 3 {
            kit.age(Duration::from_secs(60)).await;
            kit.promote().await;
        }
    }
    let attempts = kit.attempts(id).await;
    let verbs: Vec<(i64, Verb, bool)> = attempts.iter().map(|a| (a.attempt, a.verb, a.charged)).collect();
    assert_eq!(verbs, [(1, Verb::Fail, true), (2, Verb::Release, false), (3, Verb::Complete, false)]);
    let workers: Vec<_> = attempts.iter().map(|attempt| attempt.worker.clone().unwrap()).collect();
    assert_eq!(workers, ["worker-1", "worker-2", "worker-3"]);
    for (n, attempt) in attempts.iter().enumerate() {
        let aged = Duration::from_secs(60) * (2 - n as u32);
        assert_eq!(attempt.claimed_at, claims[n].claimed_at - aged, "attempt {}", attempt.attempt);
        assert_eq!(attempt.started_at, Some(attempt.claimed_at));
        assert!(attempt.ended_at >= attempt.claimed_at);
        assert_eq!(attempt.error.as_deref(), (n == 0).then_some("first"));
    }
    assert_eq!(attempts[0].error_bytes, Some(5));
}

/// Rule F7.
async fn the_first_and_the_last_hundred_attempts_are_kept(kit: Kit) {
    let id = kit.enqueue_new(kit.new_job().max_attempts(1000)).await;
    for n in 1..=230 {
        let job = kit.claim_one().await;
        assert_eq!(job.proof.attempt, n);
        let failure = turno_contract::Failure {
            proof: job.proof,
            error: n.to_string(),
            retry: Retry::In(Duration::ZERO),
        };
        let settled = kit.backend().fail(WORKER, &[failure]).await.unwrap();
        assert_eq!(settled[0].status, SettledStatus::Done);
        kit.promote().await;
    }
    let kept: Vec<i64> = kit.attempts(id).await.into_iter().map(|attempt| attempt.attempt).collect();
    assert_eq!(kept, (1..=100).chain(131..=230).collect::<Vec<_>>());
    for n in 231..=232 {
        let job = kit.claim_one().await;
        assert_done(&kit.fail(job.proof, "never again", Retry::Never).await, State::Dead);
        kit.backend().retry(id).await.unwrap();
        let kept: Vec<i64> = kit.attempts(id).await.into_iter().map(|attempt| attempt.attempt).collect();
        assert_eq!(kept, (1..=100).chain(n - 99..=n).collect::<Vec<_>>(), "after a retry");
    }
}
