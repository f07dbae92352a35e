//! Heartbeat: leases that are kept, and what a worker learns about them.

use std::time::Duration;

use turno_contract::{
    Beat, CancelAnswer, Completion, ErrorKind, HeartbeatAnswer, JobId, Proof, Retry, SettledStatus, State,
    Verb, limits,
};

use crate::Kit;
use crate::kit::{LEASE, assert_done, assert_near, refused_as, stolen, within};

super::cases! {
    Nothing: [
        a_held_lease_ends_when_it_was_asked_to,
        every_part_of_the_proof_counts,
        a_settled_attempt_is_answered_as_finished,
        a_revoked_attempt_is_lost,
        a_lease_longer_than_a_day_or_of_no_time_is_refused,
        thousands_of_leases_are_answered_in_input_order,
        a_lease_named_twice_is_answered_twice,
        a_cancel_request_is_told_until_the_end,
        no_heartbeat_extends_a_lease_beyond_max_run_and_its_margin,
        a_heartbeat_reports_the_start_of_a_buffered_job,
        a_heartbeat_that_races_with_the_verdict_never_calls_it_lost,
    ],
    Alone: [
        an_expired_lease_that_nobody_reaped_is_renewed,
        the_verdict_at_the_deadline_is_accepted,
    ],
    RowLocks: [
        a_lease_that_somebody_holds_is_busy_and_delays_no_other,
        a_heartbeat_does_not_stand_behind_settles_that_wait,
    ],
}

/// Rules H1, T1.
async fn a_held_lease_ends_when_it_was_asked_to(kit: Kit) {
    let job = kit.running_one().await;
    for lease in [Duration::from_secs(600), Duration::from_secs(7), Duration::from_secs(1800)] {
        let HeartbeatAnswer::Held { until, held_for, cancel_requested } =
            kit.beat_for(job.proof, lease).await
        else {
            panic!("not held");
        };
        assert!(!cancel_requested);
        assert!(held_for <= lease && held_for + Duration::from_secs(5) > lease, "{held_for:?} of {lease:?}");
        assert_eq!(kit.job(job.proof.job).await.lease_until, Some(until));
        assert_near(until, kit.now().await + lease, Duration::from_secs(60));
    }
    assert_eq!(kit.job(job.proof.job).await.attempt, 1);
}

/// Rules O2, H1.
async fn every_part_of_the_proof_counts(kit: Kit) {
    kit.enqueue_n(2).await;
    let jobs = kit.claim_n(2).await;
    let proof = jobs[0].proof;
    let lease_until = kit.job(proof.job).await.lease_until;
    let wrong = [
        stolen(proof),
        Proof { attempt: 0, ..proof },
        Proof { attempt: 2, ..proof },
        Proof { job: JobId(i64::MAX - 1), ..proof },
        Proof { job: JobId(-1), ..proof },
    ];
    for wrong in wrong {
        assert_eq!(kit.beat(wrong).await, HeartbeatAnswer::Lost, "{wrong:?}");
    }
    assert_eq!(kit.job(proof.job).await.lease_until, lease_until);
    assert!(kit.is_held(proof).await);
}

/// Rule H1.
async fn a_settled_attempt_is_answered_as_finished(kit: Kit) {
    kit.enqueue_n(4).await;
    let jobs = kit.claim_n(4).await;
    assert_done(&kit.complete(jobs[0].proof).await, State::Succeeded);
    assert_done(&kit.fail(jobs[1].proof, "no", Retry::Policy).await, State::Scheduled);
    assert_done(&kit.fail(jobs[2].proof, "no", Retry::Never).await, State::Dead);
    assert_done(&kit.release(jobs[3].proof, None).await, State::Ready);
    for job in &jobs {
        assert_eq!(kit.beat(job.proof).await, HeartbeatAnswer::Finished);
        assert_eq!(kit.beat(stolen(job.proof)).await, HeartbeatAnswer::Lost);
    }
}

/// Rules H1, P2.
async fn a_revoked_attempt_is_lost(kit: Kit) {
    let job = kit.running_one().await;
    assert_eq!(kit.backend().cancel(job.proof.job, true).await.unwrap(), CancelAnswer::Cancelled);
    assert_eq!(kit.beat(job.proof).await, HeartbeatAnswer::Lost);
}

/// Rules H3, E9. B41.
async fn a_lease_longer_than_a_day_or_of_no_time_is_refused(kit: Kit) {
    let job = kit.running_one().await;
    let beats = [Beat { proof: job.proof, started: true }];
    for lease in [Duration::ZERO, limits::LEASE_MAX + Duration::from_millis(1), Duration::MAX] {
        refused_as(kit.backend().heartbeat(&beats, lease).await, ErrorKind::InvalidArgument);
    }
    assert_eq!(kit.backend().heartbeat(&[], LEASE).await.unwrap(), vec![]);
    assert!(kit.is_held(job.proof).await);
}

/// Rule H1. B61.
async fn thousands_of_leases_are_answered_in_input_order(kit: Kit) {
    kit.enqueue_n(2500).await;
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.extend(kit.claim_n(1000).await);
    }
    assert_eq!(jobs.len(), 2500);
    jobs.reverse();
    let beats: Vec<Beat> = jobs
        .iter()
        .enumerate()
        .map(|(n, job)| Beat { proof: if n % 7 == 3 { stolen(job.proof) } else { job.proof }, started: true })
        .collect();
    let answers = kit.backend().heartbeat(&beats, Duration::from_secs(1800)).await.unwrap();
    assert_eq!(answers.len(), 2500);
    for (n, answer) in answers.iter().enumerate() {
        let held = matches!(answer, HeartbeatAnswer::Held { held_for, .. } if *held_for <= Duration::from_secs(1800));
        assert!(if n % 7 == 3 { *answer == HeartbeatAnswer::Lost } else { held }, "{n}: {answer:?}");
    }
}

/// Rule H1.
async fn a_lease_named_twice_is_answered_twice(kit: Kit) {
    let job = kit.running_one().await;
    let beat = Beat { proof: job.proof, started: true };
    let wrong = Beat { proof: stolen(job.proof), started: true };
    let answers = kit.backend().heartbeat(&[beat, wrong, beat], LEASE).await.unwrap();
    assert!(matches!(answers[0], HeartbeatAnswer::Held { .. }), "{answers:?}");
    assert_eq!(answers[1], HeartbeatAnswer::Lost);
    assert!(matches!(answers[2], HeartbeatAnswer::Held { .. }), "{answers:?}");
}

/// Rules H1, P2. B50.
async fn a_cancel_request_is_told_until_the_end(kit: Kit) {
    let job = kit.running_one().await;
    assert!(matches!(kit.beat(job.proof).await, HeartbeatAnswer::Held { cancel_requested: false, .. }));
    assert_eq!(kit.backend().cancel(job.proof.job, false).await.unwrap(), CancelAnswer::Requested);
    for _ in 0..2 {
        assert!(matches!(kit.beat(job.proof).await, HeartbeatAnswer::Held { cancel_requested: true, .. }));
    }
}

/// Rule H3.
async fn no_heartbeat_extends_a_lease_beyond_max_run_and_its_margin(kit: Kit) {
    let max_run = Duration::from_secs(1800);
    let job = kit.running(kit.new_job().max_run(max_run)).await;
    let end = job.claimed_at + max_run + limits::MAX_RUN_MARGIN;
    for lease in [LEASE, limits::LEASE_MAX] {
        let HeartbeatAnswer::Held { until, held_for, .. } = kit.beat_for(job.proof, lease).await else {
            panic!("not held");
        };
        assert_eq!(until, end);
        assert!(held_for <= max_run + limits::MAX_RUN_MARGIN);
    }
    let short = kit.beat_for(job.proof, Duration::from_secs(60)).await;
    assert!(matches!(short, HeartbeatAnswer::Held { until, .. } if until < end), "{short:?}");
}

/// Rules H4, F2.
async fn a_heartbeat_reports_the_start_of_a_buffered_job(kit: Kit) {
    kit.enqueue_n(3).await;
    let mut request = kit.request(3);
    request.start = Some(1);
    let jobs = kit.claim_with(&request).await;
    let minute = Duration::from_secs(60);
    kit.age(minute).await;
    for (job, started) in [(&jobs[0], true), (&jobs[1], true), (&jobs[1], false), (&jobs[2], false)] {
        let beats = [Beat { proof: job.proof, started }];
        let answers = kit.backend().heartbeat(&beats, LEASE).await.unwrap();
        assert!(matches!(answers[0], HeartbeatAnswer::Held { .. }));
        kit.age(minute).await;
    }
    kit.beat(jobs[1].proof).await;
    let mut starts = Vec::new();
    for job in &jobs {
        kit.release(job.proof, None).await;
        let attempt = crate::kit::only(kit.attempts(job.proof.job).await);
        assert_eq!((attempt.verb, attempt.claimed_at), (Verb::Release, job.claimed_at - 5 * minute));
        starts.push(attempt.started_at.map(|started| started - attempt.claimed_at));
    }
    assert_eq!(starts[0], Some(time::Duration::ZERO), "it started with the claim");
    let second = starts[1].expect("its start was reported");
    assert!(second >= minute * 2 && second < minute * 3, "{second}: the first report counts");
    assert_eq!(starts[2], None, "nobody reported its start");
}

/// Rules H1, S4: a worker that hears "lost" stops a handler that has just succeeded.
async fn a_heartbeat_that_races_with_the_verdict_never_calls_it_lost(kit: Kit) {
    for round in 0..60 {
        let proof = kit.running_one().await.proof;
        let beats = (0..3).map(|_| {
            let kit = kit.clone();
            tokio::spawn(async move { kit.beat(proof).await })
        });
        let beats: Vec<_> = beats.collect();
        let settled = match round % 3 {
            0 => kit.complete(proof).await,
            1 => kit.fail(proof, "no", Retry::Never).await,
            _ => kit.release(proof, Some(Duration::from_secs(1000))).await,
        };
        assert_eq!(settled.status, SettledStatus::Done, "{settled:?}");
        for beat in beats {
            assert_ne!(within("a heartbeat", beat).await.unwrap(), HeartbeatAnswer::Lost, "round {round}");
        }
    }
}

/// Rule H1.
async fn an_expired_lease_that_nobody_reaped_is_renewed(kit: Kit) {
    let job = kit.running(kit.new_job().max_run(Duration::from_secs(24 * 3600))).await;
    kit.expire().await;
    let HeartbeatAnswer::Held { until, .. } = kit.beat(job.proof).await else { panic!("not renewed") };
    assert_near(until, kit.now().await + LEASE, Duration::from_secs(60));
    assert_eq!(kit.reap_all().await, vec![]);
    assert_done(&kit.complete(job.proof).await, State::Succeeded);
}

/// Rule H3. B06: `max_run` as long as the lease, a handler that runs over, and everybody reaping.
async fn the_verdict_at_the_deadline_is_accepted(kit: Kit) {
    let time = Duration::from_secs(600);
    let job = kit.running(kit.new_job().max_run(time).max_attempts(2)).await;
    assert_eq!(job.lease_until - job.claimed_at, time + limits::MAX_RUN_MARGIN);
    kit.age(time / 2).await;
    assert!(matches!(kit.beat_for(job.proof, time).await, HeartbeatAnswer::Held { .. }));
    // The deadline was a second ago, and the margin is not over.
    kit.age(time / 2 + Duration::from_secs(1)).await;
    assert_eq!(kit.reap_all().await, vec![]);
    assert_done(&kit.fail(job.proof, "timed out", Retry::Policy).await, State::Scheduled);
    assert_eq!(kit.job(job.proof.job).await.failures, 1);

    kit.age(Duration::from_secs(24 * 3600)).await;
    kit.promote().await;
    let last = kit.claim_one().await;
    kit.age(time + limits::MAX_RUN_MARGIN + Duration::from_secs(1)).await;
    kit.beat_for(last.proof, time).await;
    let lost = kit.reap_all().await;
    assert_eq!((lost.len(), lost[0].state), (1, State::Dead), "a heartbeat cannot hold it any longer");
}

/// Rule H2.
async fn a_lease_that_somebody_holds_is_busy_and_delays_no_other(kit: Kit) {
    kit.enqueue_n(3).await;
    let jobs = kit.claim_n(3).await;
    let before = kit.job(jobs[1].proof.job).await.lease_until;
    let beats: Vec<Beat> = jobs.iter().map(|job| Beat { proof: job.proof, started: true }).collect();
    let mut transaction = kit.begin().await;
    transaction.lock(jobs[1].proof.job).await.unwrap();
    let answers = within("a heartbeat", kit.backend().heartbeat(&beats, LEASE)).await.unwrap();
    assert!(matches!(answers[0], HeartbeatAnswer::Held { .. }), "{answers:?}");
    assert_eq!(answers[1], HeartbeatAnswer::Busy);
    assert!(matches!(answers[2], HeartbeatAnswer::Held { .. }), "{answers:?}");
    assert_eq!(kit.job(jobs[1].proof.job).await.lease_until, before);
    transaction.rollback().await.unwrap();
    assert!(kit.is_held(jobs[1].proof).await);
}

/// Rule H2, for the connections of one process: settles that wait for held rows leave one to the heartbeat.
async fn a_heartbeat_does_not_stand_behind_settles_that_wait(kit: Kit) {
    kit.enqueue_n(4).await;
    let jobs = kit.claim_n(4).await;
    let mut transactions = Vec::new();
    let mut settles = Vec::new();
    for job in &jobs[..3] {
        let mut transaction = kit.begin().await;
        transaction.lock(job.proof.job).await.unwrap();
        transactions.push(transaction);
        let (backend, proof) = (kit.backend_shared(), job.proof);
        settles.push(tokio::spawn(async move {
            backend.complete("w", &[Completion { proof, result: None }]).await
        }));
    }
    let beat = [Beat { proof: jobs[3].proof, started: true }];
    // More than once: the settles may still be on their way.
    for _ in 0..50 {
        let answers = within("a heartbeat", kit.backend().heartbeat(&beat, LEASE)).await.unwrap();
        assert!(matches!(answers[0], HeartbeatAnswer::Held { .. }), "{answers:?}");
    }
    assert!(settles.iter().all(|settle| !settle.is_finished()), "nobody held the rows");
    for transaction in transactions {
        transaction.rollback().await.unwrap();
    }
    for settle in settles {
        assert_done(&settle.await.unwrap().unwrap()[0], State::Succeeded);
    }
}
