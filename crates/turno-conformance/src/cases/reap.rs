//! Reap: leases that ended without a verdict. These cases run alone, since a reaper reaches every queue.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join_all;
use turno_contract::{
    AttemptRecord, Beat, CancelAnswer, HeartbeatAnswer, JobId, LeaseLoss, Proof, Retry, SettingsChange,
    SettledStatus, State, Verb,
};

use crate::Kit;
use crate::kit::{LEASE, WORKER, assert_done, assert_refused, within};

super::cases! {
    Alone: [
        only_leases_that_have_ended_are_taken,
        an_expired_lease_is_charged_and_waits_for_its_retry,
        the_old_token_is_worth_nothing,
        a_finished_job_is_out_of_reach,
        a_job_that_kills_its_workers_ends_dead_after_its_budget,
        the_last_attempt_that_expires_ends_the_job,
        an_attempt_that_never_started_is_not_charged_three_times,
        a_batch_is_bounded,
        reapers_at_once_take_each_lease_once,
        a_worker_of_the_same_name_keeps_no_foreign_lease_alive,
        a_recovered_job_keeps_its_priority,
        a_job_that_was_asked_to_stop_ends_cancelled,
        a_job_of_a_paused_queue_is_recovered_too,
        after_an_outage_it_waits_one_grace,
        a_lone_reaper_that_comes_rarely_does_not_hold_for_ever,
        a_token_holds_nothing_that_was_reaped,
        a_claim_ends_expired_leases_if_it_is_a_sweep,
    ],
    RowLocksAlone: [a_lease_that_somebody_holds_delays_no_other],
}

/// Gives the jobs of this queue so much time that a heartbeat can renew what [`Kit::expire`] has let run out.
async fn allow_long_runs(kit: &Kit) {
    kit.set(SettingsChange { max_run: Some(Duration::from_secs(24 * 3600)), ..Default::default() }).await;
}

/// Moves this queue past any retry delay and makes what is due ready.
async fn retry_is_due(kit: &Kit) {
    kit.age(Duration::from_secs(7 * 24 * 3600)).await;
    kit.promote().await;
}

/// Rule R3. A worker whose grace is shorter than the time between its calls sees an outage every time.
async fn a_lone_reaper_that_comes_rarely_does_not_hold_for_ever(kit: Kit) {
    let grace = Duration::from_millis(300);
    kit.enqueue_one().await;
    let job = kit.claim_one().await;
    kit.expire().await;
    kit.rig().age_reaper(Duration::from_secs(3600)).await;
    assert!(
        kit.backend().reap(1000, grace).await.unwrap().holding_for.is_some(),
        "nobody had reaped for an hour"
    );
    kit.rig().age_reaper(Duration::from_secs(1)).await;
    let reaped = kit.backend().reap(1000, grace).await.unwrap();
    assert!(reaped.jobs.iter().any(|lost| lost.job == job.proof.job), "{reaped:?}");
}

/// Rules C8, R1.
async fn a_claim_ends_expired_leases_if_it_is_a_sweep(kit: Kit) {
    let job = kit.running_one().await;
    // The last outage was long ago and somebody has reaped just now, so that nobody holds back.
    kit.rig().age_reaper(Duration::from_secs(24 * 3600)).await;
    assert_eq!(kit.reap_all().await, []);
    kit.expire().await;
    let mut request = kit.request(1);
    request.from_ranks = vec![Some(i64::MIN)];
    assert_eq!(kit.claim_with(&request).await.len(), 0);
    assert_eq!(kit.state(job.proof.job).await, State::Running);
    let mut request = kit.request(1);
    request.from_ranks = vec![None];
    assert_eq!(kit.claim_with(&request).await.len(), 0);
    assert_eq!(kit.state(job.proof.job).await, State::Scheduled);
}

/// Rules R1, O4.
async fn only_leases_that_have_ended_are_taken(kit: Kit) {
    kit.enqueue_n(3).await;
    let long = kit.claim_one().await;
    let short = kit.claim_with(&kit.request(1).lease(Duration::from_secs(60))).await.remove(0);
    kit.age(Duration::from_secs(120)).await;
    let lost = kit.reap_all().await;
    assert_eq!(lost, [LeaseLoss { job: short.proof.job, attempt: 1, state: State::Scheduled }]);
    assert_eq!(kit.state(long.proof.job).await, State::Running);
    assert!(kit.is_held(long.proof).await);
    assert_eq!(kit.count("job", "state = 'ready'").await, 1);
    assert_eq!(kit.reap_all().await, vec![]);
}

/// Rules R2, F1, F4, F7. B09.
async fn an_expired_lease_is_charged_and_waits_for_its_retry(kit: Kit) {
    let (base, cap) = (Duration::from_secs(100), Duration::from_secs(1000));
    kit.set(SettingsChange { retry_base: Some(base), retry_cap: Some(cap), ..Default::default() }).await;
    let job = kit.running_one().await;
    kit.expire().await;
    assert_eq!(kit.reap_all().await.len(), 1);
    let record = kit.job(job.proof.job).await;
    assert_eq!((record.state, record.failures, record.attempt), (State::Scheduled, 1, 1));
    assert_eq!(record.lease_until, None);
    let attempt = crate::kit::only(kit.attempts(job.proof.job).await);
    assert_eq!((attempt.attempt, attempt.verb, attempt.charged), (1, Verb::Expire, true));
    assert_eq!(attempt.worker.as_deref(), Some(WORKER));
    assert!(attempt.started_at.is_some() && attempt.ended_at > attempt.claimed_at + LEASE);
    let delay = Duration::try_from(record.run_at - attempt.ended_at).expect("a positive delay");
    assert!(delay >= base * 3 / 4 && delay <= base + Duration::from_millis(1), "{delay:?}");
    assert_eq!(kit.claim_ids(1).await, vec![]);
    retry_is_due(&kit).await;
    assert_eq!(kit.claim_one().await.proof.attempt, 2);
}

/// Rules R2, S3, H1. B01, B05.
async fn the_old_token_is_worth_nothing(kit: Kit) {
    let old = kit.running_one().await;
    kit.expire().await;
    kit.reap_all().await;
    for round in 0..2 {
        let state = if round == 0 { State::Scheduled } else { State::Running };
        let before = kit.job(old.proof.job).await;
        assert_refused(&kit.complete(old.proof).await, state);
        assert_refused(&kit.fail(old.proof, "late", Retry::Never).await, state);
        assert_refused(&kit.release(old.proof, None).await, state);
        assert_eq!(kit.beat(old.proof).await, HeartbeatAnswer::Lost);
        assert_eq!(kit.job(old.proof.job).await, before);
        if round == 0 {
            retry_is_due(&kit).await;
            kit.claim_one().await;
        }
    }
    let lines = kit.refused(old.proof.job).await;
    assert_eq!(lines.iter().map(|line| line.times).sum::<i64>(), 6);
    assert_eq!(kit.attempts(old.proof.job).await.len(), 1);
}

/// Rules R1, O5. B01.
async fn a_finished_job_is_out_of_reach(kit: Kit) {
    let job = kit.running_one().await;
    kit.expire().await;
    assert_done(&kit.complete(job.proof).await, State::Succeeded);
    let before = (kit.job(job.proof.job).await, kit.attempts(job.proof.job).await);
    assert_eq!(kit.reap_all().await, vec![]);
    assert_eq!((kit.job(job.proof.job).await, kit.attempts(job.proof.job).await), before);
}

/// Rules F1, F3, R2. B09.
async fn a_job_that_kills_its_workers_ends_dead_after_its_budget(kit: Kit) {
    let id = kit.enqueue_new(kit.new_job().max_attempts(3)).await;
    let mut starts = 0;
    while let Some(job) = kit.claim_n(1).await.pop() {
        starts += 1;
        assert_eq!((job.proof.job, job.proof.attempt), (id, starts));
        kit.expire().await;
        assert_eq!(kit.reap_all().await.len(), 1);
        retry_is_due(&kit).await;
    }
    assert_eq!(starts, 3);
    assert_eq!(kit.job(id).await.state, State::Dead);
    let attempts = kit.attempts(id).await;
    assert!(
        attempts.iter().all(|a| a.verb == Verb::Expire && a.charged && a.worker.as_deref() == Some(WORKER))
    );
    assert_eq!(attempts.len(), 3);
}

/// Rules F3, R2. B11.
async fn the_last_attempt_that_expires_ends_the_job(kit: Kit) {
    let job = kit.running(kit.new_job().max_attempts(1).unique_key("u")).await;
    kit.expire().await;
    assert_eq!(kit.reap_all().await, [LeaseLoss { job: job.proof.job, attempt: 1, state: State::Dead }]);
    let dead = kit.job(job.proof.job).await;
    assert_eq!((dead.state, dead.failures), (State::Dead, 1));
    assert!(dead.finished_at.is_some());
    retry_is_due(&kit).await;
    assert_eq!(kit.claim_ids(10).await, vec![]);
    assert_refused(&kit.complete(job.proof).await, State::Dead);
    assert!(kit.enqueue(kit.new_job().unique_key("u")).await.created, "its unique key is free");
}

/// Rule F2.
async fn an_attempt_that_never_started_is_not_charged_three_times(kit: Kit) {
    let id = kit.enqueue_new(kit.new_job().max_attempts(2)).await;
    let mut buffered = kit.request(1);
    for n in 1..=4 {
        buffered.token = turno_contract::Token::random();
        buffered.start = Some(0);
        let job = kit.claim_with(&buffered).await.remove(0);
        let beats = [Beat { proof: job.proof, started: false }];
        kit.backend().heartbeat(&beats, LEASE).await.unwrap();
        kit.expire().await;
        assert_eq!(kit.reap_all().await.len(), 1);
        let record = kit.job(id).await;
        let attempt: AttemptRecord = kit.attempts(id).await.pop().unwrap();
        assert_eq!((attempt.attempt, attempt.verb, attempt.charged), (n, Verb::Expire, n == 4));
        assert_eq!((attempt.started_at, record.failures), (None, u32::from(n == 4)));
        if n < 4 {
            assert_eq!(
                (record.state, record.run_at),
                (State::Ready, job.run_at - LEASE - Duration::from_secs(60))
            );
        }
    }
    assert_eq!(kit.state(id).await, State::Scheduled);
    retry_is_due(&kit).await;
    let job = kit.claim_one().await;
    kit.expire().await;
    kit.reap_all().await;
    assert_eq!((job.proof.attempt, kit.state(id).await), (5, State::Dead));
}

/// Rule R1. B61.
async fn a_batch_is_bounded(kit: Kit) {
    kit.reap_all().await;
    kit.enqueue_n(5).await;
    kit.claim_n(5).await;
    kit.expire().await;
    for (limit, expected) in [(2, 2), (2, 2), (2, 1), (2, 0)] {
        let reaped = kit.backend().reap(limit, Duration::ZERO).await.unwrap();
        assert_eq!((reaped.jobs.len(), reaped.holding_for), (expected, None));
    }
}

/// Rule R1. B01.
async fn reapers_at_once_take_each_lease_once(kit: Kit) {
    kit.reap_all().await;
    let all = kit.enqueue_n(200).await;
    kit.claim_n(200).await;
    kit.expire().await;
    let reapers = (0..4).map(|_| {
        let backend = kit.backend_shared();
        tokio::spawn(async move { backend.reap(1000, Duration::ZERO).await.unwrap().jobs })
    });
    let answers = within("four reapers", join_all(reapers)).await;
    let mut lost: Vec<JobId> = answers.into_iter().flat_map(Result::unwrap).map(|loss| loss.job).collect();
    lost.extend(kit.reap_all().await.into_iter().map(|loss| loss.job));
    assert_eq!(lost.len(), 200);
    assert_eq!(lost.into_iter().collect::<HashSet<_>>(), all.into_iter().collect());
    assert_eq!(kit.count("job", "failures <> 1 OR state <> 'scheduled'").await, 0);
    assert_eq!(kit.count("attempt", "1 = 1").await, 200);
}

/// Rules O1, R1. B03.
async fn a_worker_of_the_same_name_keeps_no_foreign_lease_alive(kit: Kit) {
    allow_long_runs(&kit).await;
    kit.enqueue_n(2).await;
    let first_life = kit.claim_one().await;
    let second_life = kit.claim_one().await;
    kit.expire().await;
    assert!(kit.is_held(second_life.proof).await);
    let lost: Vec<JobId> = kit.reap_all().await.into_iter().map(|loss| loss.job).collect();
    assert_eq!(lost, [first_life.proof.job]);
    retry_is_due(&kit).await;
    let again = kit.claim_one().await;
    assert_eq!(again.proof.job, first_life.proof.job);
    assert_ne!(again.proof.token, first_life.proof.token);
}

/// Rules C3, R2. B34.
async fn a_recovered_job_keeps_its_priority(kit: Kit) {
    let urgent = kit.running(kit.new_job().priority(-10)).await.proof.job;
    kit.expire().await;
    kit.reap_all().await;
    kit.backend().enqueue(&vec![kit.new_job().priority(10); 20]).await.unwrap();
    retry_is_due(&kit).await;
    kit.backend().enqueue(&vec![kit.new_job().priority(10); 20]).await.unwrap();
    assert_eq!(kit.claim_ids(5).await[0], urgent);
}

/// Rules R2, P2.
async fn a_job_that_was_asked_to_stop_ends_cancelled(kit: Kit) {
    let job = kit.running_one().await;
    assert_eq!(kit.backend().cancel(job.proof.job, false).await.unwrap(), CancelAnswer::Requested);
    kit.expire().await;
    assert_eq!(kit.reap_all().await, [LeaseLoss { job: job.proof.job, attempt: 1, state: State::Cancelled }]);
    assert_eq!(kit.state(job.proof.job).await, State::Cancelled);
    let attempt = crate::kit::only(kit.attempts(job.proof.job).await);
    assert_eq!(attempt.verb, Verb::Expire);
    assert_refused(&kit.complete(job.proof).await, State::Cancelled);
}

/// Rules R1, P5.
async fn a_job_of_a_paused_queue_is_recovered_too(kit: Kit) {
    let job = kit.running_one().await;
    kit.backend().pause(kit.queue()).await.unwrap();
    kit.expire().await;
    let lost = kit.reap_all().await;
    assert_eq!((lost.len(), lost[0].state), (1, State::Scheduled));
    retry_is_due(&kit).await;
    assert_eq!(kit.claim_ids(1).await, vec![]);
    kit.backend().resume(kit.queue()).await.unwrap();
    assert_eq!(kit.claim_ids(1).await, vec![job.proof.job]);
}

/// Rule R3.
async fn after_an_outage_it_waits_one_grace(kit: Kit) {
    let grace = Duration::from_secs(200);
    allow_long_runs(&kit).await;
    kit.reap_all().await;
    kit.enqueue_n(2).await;
    let jobs = kit.claim_n(2).await;
    kit.rig().age_reaper(Duration::from_secs(3600)).await;
    kit.expire().await;
    let first = kit.backend().reap(1000, grace).await.unwrap();
    let holding = first.holding_for.expect("nobody had reaped for an hour");
    assert!(first.jobs.is_empty() && holding <= grace && holding > grace / 2, "{first:?}");
    assert!(kit.is_held(jobs[0].proof).await, "a live worker renews in the meantime");

    kit.rig().age_reaper(Duration::from_secs(120)).await;
    let second = kit.backend().reap(1000, grace).await.unwrap();
    let left = second.holding_for.expect("the grace is not over");
    assert!(second.jobs.is_empty() && left < holding, "{second:?}");

    kit.rig().age_reaper(Duration::from_secs(120)).await;
    let third = kit.backend().reap(1000, grace).await.unwrap();
    assert_eq!(third.holding_for, None);
    assert!(third.jobs.iter().any(|loss| loss.job == jobs[1].proof.job), "{third:?}");
    assert!(third.jobs.iter().all(|loss| loss.job != jobs[0].proof.job), "{third:?}");
    assert!(kit.is_held(jobs[0].proof).await);
}

/// Rules C5, R2.
async fn a_token_holds_nothing_that_was_reaped(kit: Kit) {
    kit.enqueue_one().await;
    let request = kit.request(1);
    let job = kit.claim_with(&request).await.remove(0);
    kit.expire().await;
    kit.reap_all().await;
    assert_eq!(kit.backend().held(request.token).await.unwrap(), vec![]);
    retry_is_due(&kit).await;
    let again = kit.claim_with(&request).await.remove(0);
    assert_eq!(again.proof, Proof { attempt: 2, ..job.proof });
    assert_eq!(kit.complete(job.proof).await.status, SettledStatus::Refused);
    assert_done(&kit.complete(again.proof).await, State::Succeeded);
}

/// Rule H2.
async fn a_lease_that_somebody_holds_delays_no_other(kit: Kit) {
    let all = kit.enqueue_n(3).await;
    kit.claim_n(3).await;
    kit.expire().await;
    let mut transaction = kit.begin().await;
    transaction.lock(all[0]).await.unwrap();
    let lost: Vec<JobId> =
        within("a reaper", kit.reap_all()).await.into_iter().map(|loss| loss.job).collect();
    assert_eq!(lost, all[1..]);
    transaction.rollback().await.unwrap();
    assert_eq!(kit.reap_all().await.len(), 1);
}
