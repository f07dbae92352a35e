//! What is beyond a limit is refused by name, and nothing is written.

use std::time::Duration;

use turno_contract::{Enqueued, Error, ErrorKind, NewJob, Result, Retry, SettingsChange, State, limits};

use crate::Kit;
use crate::kit::{KIND, assert_done, refused_as};

super::super::cases! {
    Nothing: [
        a_payload_of_the_largest_size_is_taken_and_one_more_byte_is_refused,
        a_payload_of_the_deepest_nesting_is_taken_and_one_more_level_is_refused,
        a_payload_that_is_not_json_is_refused,
        one_bad_row_refuses_the_whole_call_and_is_named,
        the_failure_budget_has_limits,
        the_time_per_attempt_has_limits,
        the_settings_of_a_queue_limit_its_producers,
        a_payload_that_sql_brought_is_claimed_and_can_be_settled,
    ],
}

fn with_payload(kit: &Kit, payload: impl Into<String>) -> NewJob {
    NewJob::new(kit.queue(), KIND, payload)
}

async fn try_enqueue(kit: &Kit, job: NewJob) -> Result<Vec<Enqueued>> {
    kit.backend().enqueue(&[job]).await
}

/// Insists that a job is refused as an invalid argument that the message names, and that nothing was written.
async fn assert_invalid(kit: &Kit, job: NewJob, name: &str) -> Error {
    let before = kit.count("job", "1 = 1").await;
    let error = refused_as(try_enqueue(kit, job).await, ErrorKind::InvalidArgument);
    assert!(error.message().contains(name), "{error} does not name {name}");
    assert_eq!(kit.count("job", "1 = 1").await, before);
    error
}

/// Rule E9. B26.
async fn a_payload_of_the_largest_size_is_taken_and_one_more_byte_is_refused(kit: Kit) {
    let of_size = |bytes: usize| format!("\"{}\"", "é".repeat((bytes - 2) / 2));
    let largest = of_size(limits::PAYLOAD_BYTES_MAX_DEFAULT);
    assert_eq!(largest.len(), limits::PAYLOAD_BYTES_MAX_DEFAULT);
    kit.enqueue_new(with_payload(&kit, largest.clone())).await;
    assert!(kit.claim_one().await.payload == largest, "the largest payload came back changed");
    assert_invalid(&kit, with_payload(&kit, format!("{largest} ")), "payload").await;
}

/// Rule E9. B26.
async fn a_payload_of_the_deepest_nesting_is_taken_and_one_more_level_is_refused(kit: Kit) {
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let objects = format!("{}1{}", "{\"a\":".repeat(100), "}".repeat(100));
    for payload in [nested(100), objects] {
        kit.enqueue_new(with_payload(&kit, payload.clone())).await;
        assert_eq!(kit.claim_one().await.payload, payload);
    }
    for depth in [101, 127, 128, 129, 1000, 100_000] {
        assert_invalid(&kit, with_payload(&kit, nested(depth)), "payload").await;
    }
}

/// Rule E9.
async fn a_payload_that_is_not_json_is_refused(kit: Kit) {
    for payload in ["", "{", "nul", "{} {}", "'a'", "\"\u{0}\"", "NaN", "[1,]"] {
        assert_invalid(&kit, with_payload(&kit, payload), "payload").await;
    }
}

/// Rules E7, E9.
async fn one_bad_row_refuses_the_whole_call_and_is_named(kit: Kit) {
    let mut jobs = vec![kit.new_job().unique_key("u").idempotency_key("i")];
    jobs.extend(vec![kit.new_job(); 71]);
    jobs.push(with_payload(&kit, "{"));
    jobs.extend(vec![kit.new_job(); 30]);
    let error = refused_as(kit.backend().enqueue(&jobs).await, ErrorKind::InvalidArgument);
    assert!(error.message().contains("72") || error.message().contains("73"), "{error} names no row");
    assert_eq!(kit.count("job", "1 = 1").await, 0);

    kit.set(SettingsChange { max_attempts_limit: Some(5), max_attempts: Some(5), ..Default::default() })
        .await;
    jobs[72] = kit.new_job().max_attempts(6);
    refused_as(kit.backend().enqueue(&jobs).await, ErrorKind::InvalidArgument);
    assert_eq!(kit.count("job", "1 = 1").await, 0, "a refusal by the database, too, refuses all");
    assert_eq!(kit.count("enqueue_key", "1 = 1").await, 0);
    assert!(kit.enqueue(jobs.swap_remove(0)).await.created);
}

/// Rules F1, E9. B14: by the API, and by the database for what comes by SQL.
async fn the_failure_budget_has_limits(kit: Kit) {
    for n in [0, 1_000_001, u32::MAX] {
        assert_invalid(&kit, kit.new_job().max_attempts(n), "max_attempts").await;
    }
    for n in [1, 2, 1_000_000] {
        let id = kit.enqueue_new(kit.new_job().max_attempts(n)).await;
        assert_eq!(kit.job(id).await.max_attempts, n);
        for set in ["max_attempts = 0", "max_attempts = -1", "max_attempts = 1000001", "max_attempts = NULL"]
        {
            assert!(kit.update_job(id, set).await.is_err(), "{set} was written");
        }
    }
}

/// Rules E9, H3. B41.
async fn the_time_per_attempt_has_limits(kit: Kit) {
    let day = Duration::from_secs(24 * 3600);
    for max_run in [Duration::ZERO, 365 * day + Duration::from_millis(1), Duration::MAX] {
        assert_invalid(&kit, kit.new_job().max_run(max_run), "max_run").await;
    }
    let taken = [
        Duration::from_millis(1),
        Duration::from_millis(1 << 31),
        Duration::from_millis(u64::from(u32::MAX) + 1),
        365 * day,
    ];
    for max_run in taken {
        let job = kit.running(kit.new_job().max_run(max_run)).await;
        assert_eq!(job.max_run, max_run);
        assert_eq!(kit.job(job.proof.job).await.max_run, max_run);
        assert_done(&kit.complete(job.proof).await, State::Succeeded);
        assert_eq!(kit.job(job.proof.job).await.max_run, max_run);
    }
}

/// Rule E11.
async fn the_settings_of_a_queue_limit_its_producers(kit: Kit) {
    let hour = Duration::from_secs(3600);
    kit.set(SettingsChange {
        max_attempts: Some(4),
        max_attempts_limit: Some(5),
        max_run: Some(Duration::from_secs(60)),
        max_run_limit: Some(Duration::from_secs(90)),
        run_at_horizon: Some(Some(hour)),
        ..Default::default()
    })
    .await;
    let now = kit.now().await;
    assert_invalid(&kit, kit.new_job().max_attempts(6), "max_attempts").await;
    assert_invalid(&kit, kit.new_job().max_run(Duration::from_millis(90_001)), "max_run").await;
    assert_invalid(&kit, kit.new_job().run_at(now + 2 * hour), "run_at").await;
    let largest = kit.new_job().max_attempts(5).max_run(Duration::from_secs(90)).run_at(now + hour);
    let mut transaction = kit.begin().await;
    let bad = transaction.enqueue(&kit.new_job().max_attempts(6)).await;
    refused_as(bad, ErrorKind::InvalidArgument);
    transaction.rollback().await.unwrap();
    kit.enqueue_new(largest).await;

    kit.set(SettingsChange { run_at_horizon: Some(None), ..Default::default() }).await;
    kit.enqueue_new(kit.new_job().run_at(now + 1000 * hour)).await;
    let other = kit.beside("other");
    other.enqueue_new(other.new_job().max_attempts(6).max_run(2 * hour).run_at(now + 2 * hour)).await;
}

/// Rules E10, C6. B26: the backend's part is to hand it out as it is and to take the verdict.
async fn a_payload_that_sql_brought_is_claimed_and_can_be_settled(kit: Kit) {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let huge = format!("\"{}\"", "h".repeat(3 << 20));
    for payload in ["{\"truncated\": ", "", "not json at all", &deep, &huge] {
        let bad = kit.enqueue_one().await;
        let good = kit.enqueue_one().await;
        kit.update_job(bad, &format!("payload = {}", crate::kit::quoted(payload))).await.unwrap();
        let claimed = kit.claim_n(10).await;
        assert_eq!(crate::kit::ids(&claimed), vec![bad, good]);
        assert!(claimed[0].payload == payload, "the payload came back changed");
        assert_done(&kit.fail(claimed[0].proof, "no JSON", Retry::Never).await, State::Dead);
        assert_done(&kit.complete(claimed[1].proof).await, State::Succeeded);
        let dead = kit.job(bad).await;
        assert_eq!((dead.state, dead.error.as_deref()), (State::Dead, Some("no JSON")));
        assert!(dead.payload.as_deref() == Some(payload), "the dead job's payload is another");
        kit.forget(bad).await;
    }
}
