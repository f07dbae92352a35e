//! Fail: the failure budget, the next try, and the end in `dead`.

mod record;

use std::time::Duration;

use futures_util::future::join_all;
use turno_contract::{ErrorKind, Failure, Retry, SettingsChange, SettledStatus, State, Verb, limits};

use crate::Kit;
use crate::kit::{WORKER, assert_done, assert_near, assert_refused, refused_as, stolen};

super::cases! {
    Nothing: [
        a_job_that_always_fails_is_started_exactly_max_attempts_times,
        the_delay_doubles_from_the_base_up_to_the_cap,
        the_delay_is_finite_and_positive_at_any_count,
        the_delays_of_many_failures_differ,
        giving_back_inflates_no_delay,
        a_failure_may_name_its_own_delay,
        a_failure_may_say_never,
        a_delay_beyond_the_limit_is_refused,
        the_same_failure_again_is_answered_from_the_record,
        another_verb_after_a_failure_is_refused,
        a_wrong_proof_charges_nothing,
        failures_at_once_have_one_winner,
    ],
}

/// All cases of this operation.
pub(super) fn all() -> Vec<crate::Case> {
    [cases(), record::cases()].into_iter().flatten().collect()
}

/// Rules F1, F3. B14.
async fn a_job_that_always_fails_is_started_exactly_max_attempts_times(kit: Kit) {
    for max_attempts in [1, 2, 3, 7] {
        let id = kit.enqueue_new(kit.new_job().max_attempts(max_attempts)).await;
        let mut started = Vec::new();
        while let Some(job) = kit.claim_n(1).await.pop() {
            assert_eq!((job.proof.job, job.failures), (id, started.len() as u32));
            started.push(job.proof.attempt);
            let last = started.len() as u32 == max_attempts;
            let settled = kit.fail(job.proof, "always", Retry::Policy).await;
            assert_done(&settled, if last { State::Dead } else { State::Scheduled });
            assert_eq!(settled.run_at.is_none(), last, "{settled:?}");
            kit.age(Duration::from_secs(7 * 24 * 3600)).await;
            kit.promote().await;
        }
        assert_eq!(started, (1..=i64::from(max_attempts)).collect::<Vec<_>>());
        let dead = kit.job(id).await;
        assert_eq!(
            (dead.state, dead.failures, dead.error.as_deref()),
            (State::Dead, max_attempts, Some("always"))
        );
        assert!(dead.finished_at.is_some() && dead.lease_until.is_none());
        assert_eq!(kit.attempts(id).await.len() as u32, max_attempts);
        assert_eq!(kit.count("job", "1 = 1").await, 0);
    }
}

/// The policy that the next cases count with.
async fn set_policy(kit: &Kit, base: Duration, cap: Duration) {
    let change = SettingsChange { retry_base: Some(base), retry_cap: Some(cap), ..Default::default() };
    let settings = kit.set(change).await;
    assert_eq!((settings.retry_base, settings.retry_cap), (base, cap));
}

/// Fails a new job whose row says that it failed this often before; answers its delay.
async fn delay_after(kit: &Kit, failures: u32) -> Duration {
    let id = kit.enqueue_new(kit.new_job().max_attempts(limits::ATTEMPTS_MAX)).await;
    kit.update_job(id, &format!("failures = {failures}, attempt = {failures}")).await.unwrap();
    let job = kit.claim_one().await;
    assert_eq!((job.proof.job, job.failures), (id, failures));
    let settled = kit.fail(job.proof, "no", Retry::Policy).await;
    assert_done(&settled, State::Scheduled);
    let attempt = crate::kit::only(kit.attempts(id).await);
    let run_at = settled.run_at.expect("it is due again");
    assert_eq!(kit.job(id).await.run_at, run_at);
    kit.backend().cancel(id, false).await.unwrap();
    kit.forget(id).await;
    Duration::try_from(run_at - attempt.ended_at).expect("a positive delay")
}

/// Insists that a delay is the full one less at most a quarter (and a millisecond of rounding).
fn assert_delay(delay: Duration, full: Duration, failures: u32) {
    let slack = Duration::from_millis(1);
    let least = full * 3 / 4;
    assert!(
        delay + slack >= least && delay <= full + slack,
        "{delay:?} after {failures} failures, full {full:?}"
    );
}

/// Rule F4. B15.
async fn the_delay_doubles_from_the_base_up_to_the_cap(kit: Kit) {
    let (base, cap) = (Duration::from_secs(2), Duration::from_secs(100));
    set_policy(&kit, base, cap).await;
    for (before, full) in [(0, 2), (1, 4), (2, 8), (3, 16), (4, 32), (5, 64), (6, 100), (7, 100), (20, 100)] {
        assert_delay(delay_after(&kit, before).await, Duration::from_secs(full), before + 1);
    }
}

/// Rule F4. B15: where powers of two leave 31, 32, 63 and 64 bits, and doubles.
async fn the_delay_is_finite_and_positive_at_any_count(kit: Kit) {
    let day = Duration::from_secs(24 * 3600);
    set_policy(&kit, Duration::from_millis(1), day).await;
    for before in [9, 30, 31, 32, 53, 61, 62, 63, 64, 65, 127, 128, 999, 1023, 1024, 65_535, 999_997] {
        let full = if before < 27 { Duration::from_millis(1 << before) } else { day };
        assert_delay(delay_after(&kit, before).await, full.min(day), before + 1);
    }
}

/// Rule F4: a crowd that failed together does not come back together.
async fn the_delays_of_many_failures_differ(kit: Kit) {
    set_policy(&kit, Duration::from_secs(1000), Duration::from_secs(1000)).await;
    kit.enqueue_n(30).await;
    let jobs = kit.claim_n(30).await;
    let failures: Vec<Failure> = jobs
        .iter()
        .map(|job| Failure { proof: job.proof, error: "no".to_owned(), retry: Retry::Policy })
        .collect();
    let settled = kit.backend().fail(WORKER, &failures).await.unwrap();
    let delays: Vec<i64> =
        settled.iter().map(|one| (one.run_at.unwrap() - jobs[0].claimed_at).whole_seconds()).collect();
    let (least, most) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
    assert!(most - least > 20, "30 delays within {least}..={most} s");
}

/// Rules F1, F4, S2. B15: a hundred snoozes, then the first failure.
async fn giving_back_inflates_no_delay(kit: Kit) {
    set_policy(&kit, Duration::from_secs(10), Duration::from_secs(3600)).await;
    let id = kit.enqueue_new(kit.new_job().max_attempts(2)).await;
    for _ in 0..100 {
        let job = kit.claim_one().await;
        assert_done(&kit.release(job.proof, Some(Duration::from_secs(1))).await, State::Scheduled);
        kit.age(Duration::from_secs(2)).await;
        kit.promote().await;
    }
    let job = kit.claim_one().await;
    assert_eq!((job.proof.attempt, job.failures), (101, 0));
    let settled = kit.fail(job.proof, "no", Retry::Policy).await;
    let last = kit.attempts(id).await.pop().unwrap();
    let delay = Duration::try_from(settled.run_at.unwrap() - last.ended_at).unwrap();
    assert_delay(delay, Duration::from_secs(10), 1);
    assert_eq!(kit.job(id).await.failures, 1);
}

/// Rules F1, F5, T1.
async fn a_failure_may_name_its_own_delay(kit: Kit) {
    let id = kit.enqueue_new(kit.new_job().max_attempts(3)).await;
    for (n, delay) in [(1, Duration::from_secs(3 * 24 * 3600)), (2, Duration::from_millis(1500))] {
        let job = kit.claim_one().await;
        let settled = kit.fail(job.proof, "later", Retry::In(delay)).await;
        assert_done(&settled, State::Scheduled);
        let attempt = kit.attempts(id).await.pop().unwrap();
        assert_near(settled.run_at.unwrap(), attempt.ended_at + delay, Duration::from_millis(1));
        assert_eq!((attempt.attempt, attempt.verb, attempt.charged), (n, Verb::Fail, true));
        kit.age(delay + Duration::from_secs(1)).await;
        kit.promote().await;
    }
    let job = kit.claim_one().await;
    assert_done(&kit.fail(job.proof, "later", Retry::In(Duration::from_secs(1))).await, State::Dead);
}

/// Rules F5, F3.
async fn a_failure_may_say_never(kit: Kit) {
    let job = kit.running(kit.new_job().max_attempts(20)).await;
    let settled = kit.fail(job.proof, "hopeless", Retry::Never).await;
    assert_done(&settled, State::Dead);
    assert_eq!(settled.run_at, None);
    let dead = kit.job(job.proof.job).await;
    assert_eq!((dead.state, dead.error.as_deref(), dead.attempt), (State::Dead, Some("hopeless"), 1));
    assert_eq!(kit.claim_ids(10).await, vec![]);
}

/// Rules F5, E9. B41.
async fn a_delay_beyond_the_limit_is_refused(kit: Kit) {
    let job = kit.running_one().await;
    for delay in [limits::DELAY_MAX + Duration::from_millis(1), Duration::MAX] {
        let failure = Failure { proof: job.proof, error: "no".to_owned(), retry: Retry::In(delay) };
        refused_as(kit.backend().fail(WORKER, &[failure]).await, ErrorKind::InvalidArgument);
    }
    assert_eq!(kit.state(job.proof.job).await, State::Running);
    assert_done(&kit.fail(job.proof, "no", Retry::In(limits::DELAY_MAX)).await, State::Scheduled);
}

/// Rules S4, O2, F7: even when somebody else runs the job by now.
async fn the_same_failure_again_is_answered_from_the_record(kit: Kit) {
    let job = kit.running(kit.new_job().max_attempts(2)).await;
    let first = kit.fail(job.proof, "first", Retry::In(Duration::from_secs(60))).await;
    assert_done(&first, State::Scheduled);
    assert_refused(&kit.fail(stolen(job.proof), "theft", Retry::Never).await, State::Scheduled);
    let again = kit.fail(job.proof, "second", Retry::Never).await;
    assert_eq!((again.status, again.state), (SettledStatus::Already, Some(State::Scheduled)));
    assert_eq!(again.run_at, first.run_at);
    kit.age(Duration::from_secs(61)).await;
    kit.promote().await;
    let other = kit.claim_one().await;
    let again = kit.fail(job.proof, "third", Retry::Policy).await;
    assert_eq!((again.status, again.state), (SettledStatus::Already, Some(State::Scheduled)));
    assert_eq!(kit.job(job.proof.job).await.failures, 1);
    assert_done(&kit.fail(other.proof, "last", Retry::Policy).await, State::Dead);
    let again = kit.fail(other.proof, "again", Retry::Policy).await;
    assert_eq!((again.status, again.state, again.run_at), (SettledStatus::Already, Some(State::Dead), None));
    let errors: Vec<_> = kit.attempts(job.proof.job).await.into_iter().map(|attempt| attempt.error).collect();
    assert_eq!(errors, [Some("first".to_owned()), Some("last".to_owned())]);
    assert_refused(&kit.fail(stolen(other.proof), "theft", Retry::Policy).await, State::Dead);
    assert_eq!(kit.refused(job.proof.job).await.len(), 2, "a theft is refused, a repeat is not");
}

/// Rules S4, S7.
async fn another_verb_after_a_failure_is_refused(kit: Kit) {
    let job = kit.running_one().await;
    assert_done(&kit.fail(job.proof, "no", Retry::Policy).await, State::Scheduled);
    for settled in [kit.complete(job.proof).await, kit.release(job.proof, None).await] {
        assert_refused(&settled, State::Scheduled);
        assert!(settled.reason.as_ref().unwrap().contains("already settled as"), "{settled:?}");
    }
    let lines = kit.refused(job.proof.job).await;
    assert_eq!(lines.iter().map(|line| line.verb).collect::<Vec<_>>(), vec![Verb::Release, Verb::Complete]);
    assert_eq!(kit.attempts(job.proof.job).await.len(), 1);
}

/// Rules O2, S3, S7.
async fn a_wrong_proof_charges_nothing(kit: Kit) {
    let job = kit.running(kit.new_job().max_attempts(1)).await;
    let before = kit.job(job.proof.job).await;
    assert_refused(&kit.fail(stolen(job.proof), "not mine", Retry::Never).await, State::Running);
    assert_eq!(kit.job(job.proof.job).await, before);
    assert!(kit.attempts(job.proof.job).await.is_empty());
    let line = crate::kit::only(kit.refused(job.proof.job).await);
    assert_eq!(
        (line.verb, line.detail.as_deref(), line.owner.as_deref()),
        (Verb::Fail, Some("not mine"), Some(WORKER))
    );
    assert!(kit.is_held(job.proof).await);
}

/// Rules S4, F1.
async fn failures_at_once_have_one_winner(kit: Kit) {
    let id = kit.enqueue_new(kit.new_job().max_attempts(100)).await;
    for round in 1..=10 {
        let job = kit.claim_one().await;
        let calls = (0..4).map(|_| {
            let kit = kit.clone();
            tokio::spawn(
                async move { kit.fail(job.proof, "no", Retry::In(Duration::from_secs(1))).await.status },
            )
        });
        let answers: Vec<_> = join_all(calls).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(answers.iter().filter(|status| **status == SettledStatus::Done).count(), 1, "{answers:?}");
        assert_eq!(
            answers.iter().filter(|status| **status == SettledStatus::Already).count(),
            3,
            "{answers:?}"
        );
        assert_eq!(kit.job(id).await.failures, round);
        kit.age(Duration::from_secs(2)).await;
        kit.promote().await;
    }
}
