//! Typed handlers: arguments, state, results, hooks, and what a handler may say about its failure.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use turno::{Context, Event, Hook, JobError, JobResult, Next, RetryPolicy, State, Verb};

use super::cases;
use crate::kit::{Log, Running, until, until_state, worker};
use crate::rig::Rig;

cases![
    a_handler_gets_its_arguments_its_state_and_its_result_is_kept,
    a_raw_handler_takes_every_kind_that_has_no_handler,
    a_result_beyond_the_limits_is_replaced_by_a_note,
    a_handler_may_snooze_name_its_delay_or_give_up,
    a_policy_of_the_kind_replaces_the_queues,
    hooks_stand_around_the_handler_and_hear_of_events,
    a_hook_that_panics_hurts_nobody,
    a_kind_at_its_limit_does_not_hold_up_the_others,
    several_workers_on_several_queues_run_each_job_once,
];

async fn a_handler_gets_its_arguments_its_state_and_its_result_is_kept(rig: Arc<Rig>) {
    let log = Log::default();
    let running = Running::start(worker(&rig, &log).handler(
        "add",
        |context: Context<Log>, (a, b): (i64, i64)| async move {
            context.state().add(&context, "ran");
            assert_eq!(context.attempt(), 1);
            assert_eq!(context.job().kind, "add");
            assert!(context.remaining() > Duration::from_secs(3500) && !context.is_cancelled());
            Ok(a + b)
        },
    ));
    let job = rig.queue().enqueue("add", &(9_007_199_254_740_993i64, 1)).await.unwrap();
    assert!(job.created);
    until_state(&rig, job.id, State::Succeeded).await;
    let record = rig.job(job.id).await;
    assert_eq!(record.result.as_deref(), Some("9007199254740994"));
    assert_eq!((record.attempt, record.failures), (1, 0));
    until("the worker is idle", || async { running.handle.is_idle() }).await;
    let report = running.stop().await;
    assert_eq!((report.metrics.started, report.metrics.succeeded), (1, 1));
    assert_eq!(record.worker.as_deref(), Some(report.worker.as_str()));
    assert!(report.released.is_empty() && report.given_up.is_empty() && report.left_to_lease.is_empty());
}

async fn a_raw_handler_takes_every_kind_that_has_no_handler(rig: Arc<Rig>) {
    let log = Log::default();
    let running = Running::start(
        worker(&rig, &log)
            .handler("typed", |_: Context<Log>, (): ()| async { Ok("typed") })
            .raw_handler(|_, job| async move { Ok(Some(format!("[{:?},{}]", job.kind, job.payload))) }),
    );
    let typed = rig.enqueue("typed", "null").await;
    let other = rig.enqueue("other", r#"{"b":1e400,"a":"\u0000"}"#).await;
    until_state(&rig, typed, State::Succeeded).await;
    until_state(&rig, other, State::Succeeded).await;
    assert_eq!(rig.job(typed).await.result.as_deref(), Some(r#""typed""#));
    assert_eq!(rig.job(other).await.result.as_deref(), Some(r#"["other",{"b":1e400,"a":"\u0000"}]"#));
    running.stop().await;
}

async fn a_result_beyond_the_limits_is_replaced_by_a_note(rig: Arc<Rig>) {
    let log = Log::default();
    let running = Running::start(
        worker(&rig, &log)
            .handler("long", |_: Context<Log>, (): ()| async { Ok("x".repeat(2 << 20)) })
            .raw_handler(|_, _| async { Ok(Some("no JSON".into())) }),
    );
    let long = rig.enqueue("long", "null").await;
    let no_json = rig.enqueue("raw", "null").await;
    for (id, detail) in [(long, "2097154 bytes"), (no_json, "not JSON")] {
        until_state(&rig, id, State::Succeeded).await;
        let result = rig.job(id).await.result.unwrap();
        assert!(result.contains("the result was not kept") && result.contains(detail), "{result}");
    }
    assert_eq!(running.stop().await.metrics.results_replaced, 2);
}

async fn a_handler_may_snooze_name_its_delay_or_give_up(rig: Arc<Rig>) {
    let log = Log::default();
    let running =
        Running::start(worker(&rig, &log).handler("k", |_: Context<Log>, what: String| async move {
            match what.as_str() {
                "snooze" => Err::<(), _>(JobError::snooze(Duration::from_secs(1000))),
                "retry" => Err(JobError::new("later").retry_in(Duration::from_secs(2000))),
                "std" => Err(std::io::Error::other("from the system"))?,
                "anyhow" => Err(JobError::new(anyhow::anyhow!("the root").context("the context"))),
                _ => Err(JobError::new("pointless").never()),
            }
        }));
    let mut ids = Vec::new();
    for what in ["snooze", "retry", "std", "anyhow", "never"] {
        ids.push(rig.queue().enqueue("k", what).await.unwrap().id);
    }
    until_state(&rig, ids[4], State::Dead).await;
    assert_eq!(rig.job(ids[4]).await.error.as_deref(), Some("pointless"));
    let expected = [
        (Verb::Release, false, None, 1000),
        (Verb::Fail, true, Some("later"), 2000),
        (Verb::Fail, true, Some("from the system"), 1),
        (Verb::Fail, true, Some("the context: the root"), 1),
    ];
    for (id, (verb, charged, error, due_in_s)) in ids.iter().zip(expected) {
        until("its attempt has ended", || async { !rig.backend.attempts(*id).await.unwrap().is_empty() })
            .await;
        let attempt = rig.backend.attempts(*id).await.unwrap().remove(0);
        assert_eq!((attempt.verb, attempt.charged), (verb, charged));
        if verb == Verb::Fail {
            assert_eq!(attempt.error.as_deref(), error);
        }
        let record = rig.job(*id).await;
        assert_eq!(record.failures, u32::from(charged));
        if due_in_s > 1 {
            assert_eq!(record.state, State::Scheduled);
            let due_in = (record.run_at - attempt.ended_at).whole_seconds();
            assert!((due_in_s - 2..=due_in_s).contains(&due_in), "{due_in}");
        }
    }
    let metrics = running.stop().await.metrics;
    assert!(metrics.released >= 1 && metrics.failed >= 4 && metrics.dead == 1, "{metrics:?}");
}

async fn a_policy_of_the_kind_replaces_the_queues(rig: Arc<Rig>) {
    let log = Log::default();
    let running = Running::start(
        worker(&rig, &log)
            .kind_retry("k", RetryPolicy::constant(Duration::from_secs(5000)))
            .handler("k", |_: Context<Log>, (): ()| async { Err::<(), _>(JobError::new("no")) }),
    );
    let id = rig.enqueue("k", "null").await;
    until_state(&rig, id, State::Scheduled).await;
    let attempt = rig.backend.attempts(id).await.unwrap().remove(0);
    let due_in = (rig.job(id).await.run_at - attempt.ended_at).whole_seconds();
    assert!((4998..=5000).contains(&due_in), "{due_in}");
    running.stop().await;
}

#[derive(Default, Clone)]
struct Recorder {
    calls: Arc<Mutex<Vec<String>>>,
    events: Arc<Mutex<Vec<(Instant, String)>>>,
}

#[async_trait::async_trait]
impl Hook for Recorder {
    async fn before(&self, context: &Context) -> Result<(), JobError> {
        self.calls.lock().unwrap().push(format!("before {}", context.job().kind));
        if context.job().kind == "refused" { Err(JobError::new("not today").never()) } else { Ok(()) }
    }

    async fn after(&self, _: &Context, result: &JobResult) {
        self.calls.lock().unwrap().push(format!("after {result:?}"));
    }

    fn event(&self, at: Instant, event: &Event<'_>) {
        let text = format!("{event:?}");
        let name = text.split([' ', '{']).next().unwrap_or_default().to_owned();
        self.events.lock().unwrap().push((at, name));
    }
}

/// Changes what the handler answered.
struct Shout;

#[async_trait::async_trait]
impl Hook for Shout {
    async fn around(&self, _: &Context, next: Next) -> JobResult {
        next.run().await.map(|result| result.map(|text| text.to_uppercase()))
    }
}

async fn hooks_stand_around_the_handler_and_hear_of_events(rig: Arc<Rig>) {
    let (log, recorder) = (Log::default(), Recorder::default());
    let running = Running::start(
        worker(&rig, &log)
            .hook(recorder.clone())
            .hook(Shout)
            .raw_handler(|_, _| async { Ok(Some(r#""quiet""#.into())) }),
    );
    let good = rig.enqueue("good", "1").await;
    let refused = rig.enqueue("refused", "1").await;
    until_state(&rig, good, State::Succeeded).await;
    until_state(&rig, refused, State::Dead).await;
    until("the worker is idle", || async { running.handle.is_idle() }).await;
    running.stop().await;
    assert_eq!(rig.job(good).await.result.as_deref(), Some(r#""QUIET""#));
    assert_eq!(rig.job(refused).await.error.as_deref(), Some("not today"));
    let calls = recorder.calls.lock().unwrap().clone();
    assert!(calls.contains(&r#"after Ok(Some("\"QUIET\""))"#.to_owned()), "{calls:?}");
    assert_eq!(calls.len(), 3, "no after without a before: {calls:?}");
    let events = recorder.events.lock().unwrap().clone();
    assert!(events.is_sorted_by_key(|(at, _)| *at));
    for name in ["Claimed", "Started", "Ended", "Settled", "ClaimEmpty"] {
        assert!(events.iter().any(|(_, event)| event == name), "{name} in {events:?}");
    }
}

struct Panicky;

#[async_trait::async_trait]
impl Hook for Panicky {
    async fn before(&self, context: &Context) -> Result<(), JobError> {
        assert!(context.job().kind != "bad", "the hook stumbled");
        Ok(())
    }

    fn event(&self, _: Instant, _: &Event<'_>) {
        panic!("in an event");
    }
}

async fn a_hook_that_panics_hurts_nobody(rig: Arc<Rig>) {
    let log = Log::default();
    let running = Running::start(
        worker(&rig, &log).concurrency(1).hook(Panicky).raw_handler(|_, _| async { Ok(None) }),
    );
    let bad = rig.enqueue_job(turno::NewJob::new(&rig.queue, "bad", "1").max_attempts(1)).await;
    let good = rig.enqueue("good", "1").await;
    until_state(&rig, bad, State::Dead).await;
    until_state(&rig, good, State::Succeeded).await;
    assert!(rig.job(bad).await.error.unwrap().contains("the hook stumbled"));
    assert!(running.stop().await.metrics.hook_panics > 3);
}

/// The most that ran at the same time.
#[derive(Default)]
struct Peak {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Peak {
    fn enter(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
    }

    fn leave(&self) {
        self.now.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn a_kind_at_its_limit_does_not_hold_up_the_others(rig: Arc<Rig>) {
    let (log, peak) = (Log::default(), Arc::new(Peak::default()));
    let mut slow = Vec::new();
    for _ in 0..6 {
        slow.push(rig.enqueue("slow", "null").await);
    }
    let quick = rig.enqueue("quick", "null").await;
    let (seen, gate) = (Arc::clone(&peak), Arc::new(tokio::sync::Semaphore::new(0)));
    let inner = Arc::clone(&gate);
    let running = Running::start(
        worker(&rig, &log)
            .concurrency(4)
            .kind_concurrency("slow", 2)
            .handler("slow", move |_: Context<Log>, (): ()| {
                let (peak, gate) = (Arc::clone(&seen), Arc::clone(&inner));
                async move {
                    peak.enter();
                    gate.acquire().await.map_err(JobError::new)?.forget();
                    peak.leave();
                    Ok(())
                }
            })
            .handler("quick", |_: Context<Log>, (): ()| async { Ok(()) }),
    );
    until_state(&rig, quick, State::Succeeded).await;
    // The record is there before its answer has reached the worker.
    until("it is counted", || async { running.handle.metrics().succeeded > 0 }).await;
    assert_eq!(running.handle.metrics().succeeded, 1, "while the slow ones stand at their gate");
    gate.add_permits(100);
    // Those that waited too long for a slot were put back with a delay.
    until("all slow ones succeeded", || async {
        rig.age_schedule(Duration::from_secs(60)).await;
        running.handle.metrics().succeeded == 7
    })
    .await;
    assert_eq!(peak.most.load(Ordering::SeqCst), 2);
    running.stop().await;
    for id in slow {
        assert_eq!(rig.job(id).await.failures, 0, "waiting is not charged");
    }
}

async fn several_workers_on_several_queues_run_each_job_once(rig: Arc<Rig>) {
    let log = Log::default();
    let queues: Vec<String> = (0..3).map(|n| format!("{}_{n}", rig.queue)).collect();
    let jobs: Vec<turno::NewJob> =
        (0..150).map(|n| turno::NewJob::new(&queues[n % 3], "k", n.to_string())).collect();
    let ids: Vec<_> = rig.backend.enqueue(&jobs).await.unwrap().into_iter().map(|answer| answer.id).collect();
    let workers: Vec<Running> = (0..3)
        .map(|n| {
            Running::start(
                worker(&rig, &log).queues(&queues).name(format!("w{n}")).concurrency(4).prefetch(8).handler(
                    "k",
                    |context: Context<Log>, _: u32| async move {
                        context.state().add(&context, "ran");
                        tokio::task::yield_now().await;
                        Ok(())
                    },
                ),
            )
        })
        .collect();
    until("all have run", || async {
        workers.iter().map(|running| running.handle.metrics().succeeded).sum::<u64>() == 150
    })
    .await;
    for running in workers {
        running.stop().await;
    }
    let mut ran: Vec<_> = log.all().into_iter().map(|(job, attempt, _)| (job, attempt)).collect();
    ran.sort();
    assert_eq!(ran, ids.into_iter().map(|id| (id, 1)).collect::<Vec<_>>());
}
