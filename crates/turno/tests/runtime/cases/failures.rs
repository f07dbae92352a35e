//! Failures of jobs are never failures of the worker: panics, payloads of any kind, errors of any length, deadlines.

use std::panic::panic_any;
use std::sync::Arc;
use std::time::Duration;

use turno::{Context, Engine, JobError, JobId, NewJob, State, Verb};

use super::cases;
use crate::kit::{Log, Running, until, until_state, worker};
use crate::rig::Rig;

cases![
    a_panic_of_any_kind_is_the_jobs_failure_and_the_next_job_runs,
    a_kind_without_a_handler_goes_back_uncharged_until_somebody_knows_it,
    a_payload_of_another_shape_is_charged_and_told,
    a_payload_that_is_no_json_or_too_large_or_too_deep_is_dead_with_a_diagnosis,
    an_error_of_17_mib_is_a_failure_like_any_other,
    an_error_that_cannot_be_stored_is_replaced_by_a_short_one,
    a_deadline_as_long_as_the_lease_is_recorded_and_ends_the_job,
    a_handler_that_stops_at_its_deadline_says_so_itself,
];

/// Panics when it is dropped.
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        panic!("in a destructor");
    }
}

/// Known fault B17.
async fn a_panic_of_any_kind_is_the_jobs_failure_and_the_next_job_runs(rig: Arc<Rig>) {
    let log = Log::default();
    let handler = |_: Context<Log>, what: String| async move {
        match what.as_str() {
            "text" => panic!("with a text"),
            "format" => panic!("with {}", "arguments"),
            "number" => panic_any(7),
            "grenade as payload" => panic_any(Grenade),
            "grenade in the handler" => {
                let _grenade = Grenade;
                Ok::<(), JobError>(())
            }
            "grenade after a wait" => {
                let _grenade = Grenade;
                tokio::task::yield_now().await;
                Ok(())
            }
            _ => Ok(()),
        }
    };
    let running = Running::start(worker(&rig, &log).concurrency(1).handler("k", handler));
    let cases = [
        ("text", "panicked: with a text"),
        ("format", "panicked: with arguments"),
        ("number", "panicked: with a payload that is no text"),
        ("grenade as payload", "panicked: with a payload that is no text"),
        ("grenade in the handler", "panicked: in a destructor"),
        ("grenade after a wait", "panicked: in a destructor"),
    ];
    for (what, error) in cases {
        let job = rig.queue().job("k", what).unwrap().max_attempts(1);
        let bad = rig.enqueue_job(job).await;
        let good = rig.queue().enqueue("k", "good").await.unwrap().id;
        until_state(&rig, bad, State::Dead).await;
        until_state(&rig, good, State::Succeeded).await;
        let record = rig.job(bad).await;
        assert_eq!(record.error.as_deref(), Some(error));
        assert_eq!(record.failures, 1);
    }
    assert_eq!(running.stop().await.metrics.panicked, 6);
}

/// Known fault B25.
async fn a_kind_without_a_handler_goes_back_uncharged_until_somebody_knows_it(rig: Arc<Rig>) {
    let log = Log::default();
    let unknown = rig.enqueue("nobody_knows", "1").await;
    let mut good = Vec::new();
    for _ in 0..3 {
        good.push(rig.enqueue("known", "1").await);
    }
    let known = |_: Context<Log>, _: u32| async { Ok(()) };
    let ignorant = Running::start(worker(&rig, &log).concurrency(1).handler("known", known));
    for id in good {
        until_state(&rig, id, State::Succeeded).await;
    }
    until_state(&rig, unknown, State::Scheduled).await;
    let record = rig.job(unknown).await;
    assert_eq!((record.failures, record.attempt), (0, 1));
    assert_eq!(rig.backend.attempts(unknown).await.unwrap()[0].verb, Verb::Release);
    assert_eq!(ignorant.stop().await.metrics.unknown_kind, 1);
    rig.age_schedule(Duration::from_secs(120)).await;
    let knowing = Running::start(worker(&rig, &log).handler("nobody_knows", known));
    until_state(&rig, unknown, State::Succeeded).await;
    knowing.stop().await;
}

/// Known fault B25.
async fn a_payload_of_another_shape_is_charged_and_told(rig: Arc<Rig>) {
    let log = Log::default();
    let running =
        Running::start(worker(&rig, &log).handler("k", |context: Context<Log>, _: u32| async move {
            context.state().add(&context, "ran");
            Ok(())
        }));
    let id = rig.enqueue_job(NewJob::new(&rig.queue, "k", r#"{"not":"a number"}"#).max_attempts(2)).await;
    until("the first attempt has failed", || async { rig.job(id).await.failures == 1 }).await;
    until_state(&rig, id, State::Scheduled).await;
    rig.age_schedule(Duration::from_secs(3600)).await;
    until_state(&rig, id, State::Dead).await;
    let error = rig.job(id).await.error.unwrap();
    assert!(error.contains("the payload does not fit") && error.contains("invalid type: map"), "{error}");
    assert!(!log.has("ran"));
    assert_eq!(running.stop().await.metrics.undecodable, 2);
}

/// Writes a payload that the API would refuse.
async fn write_payload(rig: &Rig, id: JobId, expression: &str) {
    let job = rig.table("job");
    rig.execute(&format!("UPDATE {job} SET payload = {expression} WHERE id = {id}")).await;
}

/// Known faults B25 and B26; rule E10.
async fn a_payload_that_is_no_json_or_too_large_or_too_deep_is_dead_with_a_diagnosis(rig: Arc<Rig>) {
    let log = Log::default();
    let repeat = |text: &str, n: usize| match rig.engine {
        Engine::Sqlite => format!("replace(hex(zeroblob({n})), '00', '{text}')"),
        _ => format!("repeat('{text}', {n})"),
    };
    let nested = |n: usize| format!("{} || {}", repeat("[", n), repeat("]", n));
    let bad = [
        (r#"'{"truncated":'"#.to_owned(), "is not JSON"),
        ("''".to_owned(), "is not JSON"),
        (nested(101), "deeper than 100"),
        (nested(128), "deeper than 100"),
        (nested(100_000), "deeper than 100"),
        (format!("'\"' || {} || '\"'", repeat("x", 10 << 20)), "more than 1048576"),
    ];
    let later = time::OffsetDateTime::now_utc() + Duration::from_secs(1000);
    let mut ids = Vec::new();
    for (expression, _) in &bad {
        let id = rig.enqueue_job(NewJob::new(&rig.queue, "k", "1").run_at(later)).await;
        write_payload(&rig, id, expression).await;
        ids.push(id);
    }
    let deep = rig.enqueue_job(NewJob::new(&rig.queue, "k", "1").run_at(later)).await;
    write_payload(&rig, deep, &nested(100)).await;
    rig.age_schedule(Duration::from_secs(2000)).await;
    let running = Running::start(
        worker(&rig, &log)
            .concurrency(1)
            .handler("k", |_: Context<Log>, _: serde_json::Value| async { Ok(()) }),
    );
    for (id, (_, diagnosis)) in ids.into_iter().zip(bad) {
        until_state(&rig, id, State::Dead).await;
        let error = rig.job(id).await.error.unwrap();
        assert!(error.contains(diagnosis), "{error}");
    }
    until_state(&rig, deep, State::Succeeded).await;
    running.stop().await;
}

/// Known fault B18.
async fn an_error_of_17_mib_is_a_failure_like_any_other(rig: Arc<Rig>) {
    let log = Log::default();
    let running = Running::start(
        worker(&rig, &log).concurrency(1).handler("k", |_: Context<Log>, bytes: usize| async move {
            Err::<(), _>(JobError::new("é".repeat(bytes / 2)).never())
        }),
    );
    for bytes in [0, 65_536, 17 << 20] {
        let id = rig.queue().enqueue("k", &bytes).await.unwrap().id;
        until_state(&rig, id, State::Dead).await;
        let record = rig.job(id).await;
        let stored = record.error.unwrap();
        assert_eq!(stored.chars().filter(|c| *c == 'é').count(), stored.chars().count().min(bytes / 2));
        let attempt = rig.backend.attempts(id).await.unwrap().remove(0);
        assert_eq!(attempt.error_bytes, Some(bytes as i64));
    }
    running.stop().await;
}

/// Known fault B18: the failure itself cannot be written.
async fn an_error_that_cannot_be_stored_is_replaced_by_a_short_one(rig: Arc<Rig>) {
    let (log, finished, word) =
        (Log::default(), rig.table("finished_job"), format!("unspeakable {}", rig.queue));
    match rig.engine {
        Engine::Sqlite => {
            let sql = format!(
                "CREATE TRIGGER hook BEFORE INSERT ON {finished} WHEN NEW.error LIKE '%{word}%' \
                 BEGIN SELECT RAISE(ABORT, 'refused by a hook'); END"
            );
            rig.execute(&sql).await;
        }
        _ => {
            let name = format!("hook_{}", rig.queue);
            let sql = format!(
                "ALTER TABLE {finished} ADD CONSTRAINT {name} CHECK (error NOT LIKE '%{word}%') NOT VALID"
            );
            rig.execute(&sql).await;
        }
    }
    let text = word.clone();
    let running = Running::start(worker(&rig, &log).handler("k", move |_: Context<Log>, bad: bool| {
        let text = if bad { text.clone() } else { "harmless".to_owned() };
        async move { Err::<(), _>(JobError::new(text).never()) }
    }));
    let mut ids = Vec::new();
    for bad in [false, true, false] {
        ids.push(rig.queue().enqueue("k", &bad).await.unwrap().id);
    }
    for id in &ids {
        until_state(&rig, *id, State::Dead).await;
    }
    let error = rig.job(ids[1]).await.error.unwrap();
    assert!(error.contains(&format!("error of {} bytes could not be stored", word.len())), "{error}");
    assert_eq!(rig.job(ids[2]).await.error.as_deref(), Some("harmless"));
    assert!(running.stop().await.metrics.fatal_errors >= 1);
    if rig.engine == Engine::Postgres {
        rig.execute(&format!("ALTER TABLE {finished} DROP CONSTRAINT hook_{}", rig.queue)).await;
    }
}

/// Known fault B06: the verdict of the deadline is not lost to the lease, even if both are the same.
async fn a_deadline_as_long_as_the_lease_is_recorded_and_ends_the_job(rig: Arc<Rig>) {
    let log = Log::default();
    let lease = Duration::from_millis(1500);
    let builder = |name: &str| {
        worker(&rig, &log).name(name).lease(lease).handler("k", |context: Context<Log>, (): ()| async move {
            context.state().add(&context, "started");
            std::future::pending::<()>().await;
            Ok(())
        })
    };
    let first = Running::start(builder("first"));
    let second = Running::start(builder("second"));
    let id = rig.enqueue_job(NewJob::new(&rig.queue, "k", "null").max_run(lease).max_attempts(2)).await;
    until("the first attempt has ended", || async { rig.job(id).await.failures == 1 }).await;
    rig.age_schedule(Duration::from_secs(3600)).await;
    until_state(&rig, id, State::Dead).await;
    let attempts = rig.backend.attempts(id).await.unwrap();
    assert_eq!(attempts.len(), 2);
    for attempt in attempts {
        assert_eq!((attempt.verb, attempt.charged), (Verb::Fail, true), "the verdict, not the reaper");
        assert_eq!(attempt.error.as_deref(), Some("timed out after 1.5s"));
    }
    assert_eq!(log.count("started"), 2);
    assert!(rig.backend.refused(Some(id), None, 10).await.unwrap().is_empty());
    first.stop().await;
    second.stop().await;
}

async fn a_handler_that_stops_at_its_deadline_says_so_itself(rig: Arc<Rig>) {
    let log = Log::default();
    let running =
        Running::start(worker(&rig, &log).handler("k", |context: Context<Log>, finish: bool| async move {
            context.cancelled().await;
            let cause = context.cancel_cause().expect("a cause");
            if finish { Ok(cause.to_string()) } else { Err(JobError::new("stopped in time").never()) }
        }));
    let max_run = Duration::from_millis(200);
    let kept = rig.enqueue_job(NewJob::new(&rig.queue, "k", "true").max_run(max_run)).await;
    let failed = rig.enqueue_job(NewJob::new(&rig.queue, "k", "false").max_run(max_run)).await;
    until_state(&rig, kept, State::Succeeded).await;
    until_state(&rig, failed, State::Dead).await;
    assert_eq!(rig.job(kept).await.result.as_deref(), Some(r#""its time is over""#));
    assert_eq!(rig.job(failed).await.error.as_deref(), Some("timed out after 200ms: stopped in time"));
    assert_eq!(running.stop().await.metrics.timed_out, 2);
}
