//! Leases: kept while a handler runs, whatever it does to its threads; given up when they cannot be kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use turno::{CancelAnswer, CancelCause, Context, ErrorKind, JobError, JobId, NewJob, State, Verb, Worker};

use super::cases;
use crate::kit::{LIMIT, Log, Running, SLACK, until, until_state, worker};
use crate::rig::Rig;

cases![
    a_job_longer_than_its_lease_starts_once,
    handlers_that_block_every_thread_do_not_starve_the_heartbeat,
    a_heartbeat_that_leaves_no_time_for_a_second_is_refused,
    a_lost_lease_cancels_the_handler_and_its_late_result_lands_in_the_ledger,
    a_lost_lease_aborts_a_handler_that_does_not_listen,
    a_lease_that_cannot_be_renewed_is_given_up_in_time,
    a_cancel_reaches_the_handler_within_a_heartbeat,
    a_cancel_that_comes_after_the_handler_has_succeeded_changes_nothing,
    buffered_jobs_are_kept_by_heartbeats_and_go_back_uncharged,
];

/// Known fault B07a.
async fn a_job_longer_than_its_lease_starts_once(rig: Arc<Rig>) {
    let log = Log::default();
    let other = rig.another_backend().await;
    let handler = |context: Context<Log>, (): ()| async move {
        context.state().add(&context, "started");
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(4) && !context.is_cancelled() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(context.is_cancelled())
    };
    let lease = Duration::from_secs(1);
    let first = Running::start(worker(&rig, &log).lease(lease).handler("k", handler));
    let id = rig.enqueue("k", "null").await;
    until("it has started", || async { log.has("started") }).await;
    let second = Running::start(
        Worker::builder(other).state(log.clone()).queue(&rig.queue).lease(lease).handler("k", handler),
    );
    until_state(&rig, id, State::Succeeded).await;
    assert_eq!(rig.job(id).await.result.as_deref(), Some("false"));
    assert_eq!((log.count("started"), rig.job(id).await.attempt), (1, 1));
    assert!(first.stop().await.metrics.heartbeats >= 5);
    second.stop().await;
}

/// Known fault B07b.
async fn handlers_that_block_every_thread_do_not_starve_the_heartbeat(rig: Arc<Rig>) {
    let (log, release) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let lease = Duration::from_secs(2);
    let ids = [rig.enqueue("k", "null").await, rig.enqueue("k", "null").await];
    // The worker's own runtime, of as many threads as handlers: both threads will be blocked.
    let (backend, queue) = (rig.another_backend().await, rig.queue.clone());
    let (seen, gate) = (log.clone(), Arc::clone(&release));
    let blocked = Worker::builder(backend)
        .state(seen)
        .queue(queue)
        .lease(lease)
        .concurrency(2)
        .handler("k", move |context: Context<Log>, (): ()| {
            let gate = Arc::clone(&gate);
            async move {
                context.state().add(&context, "started");
                let began = Instant::now();
                while !gate.load(Ordering::SeqCst) && began.elapsed() < LIMIT {
                    std::hint::spin_loop();
                    std::thread::yield_now();
                }
                Ok(context.is_cancelled())
            }
        })
        .build()
        .unwrap();
    let handle = blocked.handle();
    let thread = std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(blocked.run())
    });
    until("both handlers block their threads", || async { log.count("started") == 2 }).await;
    let rival = Running::start(worker(&rig, &log).lease(lease).handler(
        "k",
        |context: Context<Log>, (): ()| async move {
            context.state().add(&context, "started again");
            Ok(())
        },
    ));
    let before = handle.metrics().heartbeats;
    until("five more heartbeats were accepted", || async { handle.metrics().heartbeats >= before + 5 }).await;
    release.store(true, Ordering::SeqCst);
    for id in ids {
        until_state(&rig, id, State::Succeeded).await;
        assert_eq!(rig.job(id).await.result.as_deref(), Some("false"), "never cancelled");
        assert_eq!(rig.job(id).await.attempt, 1);
    }
    assert!(!log.has("started again"));
    handle.shutdown();
    thread.join().unwrap().unwrap();
    rival.stop().await;
}

/// Known fault B07.
async fn a_heartbeat_that_leaves_no_time_for_a_second_is_refused(rig: Arc<Rig>) {
    let log = Log::default();
    let build = |every_ms: u64| {
        worker(&rig, &log)
            .lease(Duration::from_secs(1))
            .heartbeat_every(Duration::from_millis(every_ms))
            .raw_handler(|_, _| async { Ok(None) })
            .build()
    };
    for every_ms in [0, 500, 501, 1000, 60_000] {
        let error = build(every_ms).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains("heartbeat_every"), "{error}");
    }
    assert!(build(499).is_ok());
}

/// Expires the lease of the running job, for whichever worker reaps first.
async fn take_away(rig: &Rig, id: JobId) {
    until("the lease is reaped", || async {
        if rig.backend.attempts(id).await.unwrap().is_empty() {
            rig.age_leases(Duration::from_secs(3600)).await;
            rig.backend.reap(100, Duration::ZERO).await.unwrap();
        }
        !rig.backend.attempts(id).await.unwrap().is_empty()
    })
    .await;
}

async fn a_lost_lease_cancels_the_handler_and_its_late_result_lands_in_the_ledger(rig: Arc<Rig>) {
    let log = Log::default();
    let running =
        Running::start(worker(&rig, &log).handler("k", |context: Context<Log>, succeed: bool| async move {
            context.state().add(&context, "started");
            context.cancelled().await;
            assert_eq!(context.cancel_cause(), Some(CancelCause::LeaseLost));
            if succeed { Ok("late") } else { Err(JobError::new("torn out")) }
        }));
    for (succeed, verb, detail) in
        [(true, Verb::Complete, "\"late\""), (false, Verb::Fail, "its lease was lost: torn out")]
    {
        let id = rig.queue().enqueue("k", &succeed).await.unwrap().id;
        until("it has started", || async { log.all().iter().any(|(job, ..)| *job == id) }).await;
        take_away(&rig, id).await;
        until("the ledger has it", || async {
            !rig.backend.refused(Some(id), None, 10).await.unwrap().is_empty()
        })
        .await;
        let line = rig.backend.refused(Some(id), None, 10).await.unwrap().remove(0);
        assert_eq!((line.verb, line.attempt, line.detail.as_deref()), (verb, 1, Some(detail)));
        let attempt = rig.backend.attempts(id).await.unwrap().remove(0);
        assert_eq!((attempt.verb, attempt.charged), (Verb::Expire, true));
        rig.backend.cancel(id, false).await.unwrap();
    }
    let metrics = running.stop().await.metrics;
    assert_eq!((metrics.leases_lost, metrics.refused), (2, 2));
}

async fn a_lost_lease_aborts_a_handler_that_does_not_listen(rig: Arc<Rig>) {
    let log = Log::default();
    let running = Running::start(worker(&rig, &log).concurrency(1).handler(
        "deaf",
        |context: Context<Log>, (): ()| async move {
            context.state().add(&context, "started");
            std::future::pending::<()>().await;
            Ok(())
        },
    ));
    let id = rig.enqueue_job(NewJob::new(&rig.queue, "deaf", "null").max_attempts(1)).await;
    until("it has started", || async { log.has("started") }).await;
    take_away(&rig, id).await;
    assert_eq!(rig.state(id).await, State::Dead);
    until("its slot is free", || async { running.handle.metrics().running == 0 }).await;
    let metrics = running.stop().await.metrics;
    assert_eq!((metrics.leases_lost, metrics.refused), (1, 0), "nothing to say, nothing said");
}

/// The monotonic fence: nobody answered, so the worker must take the lease for lost when its time is over.
async fn a_lease_that_cannot_be_renewed_is_given_up_in_time(rig: Arc<Rig>) {
    let log = Log::default();
    let lease = Duration::from_millis(1500);
    let running = Running::start(worker(&rig, &log).lease(lease).handler(
        "k",
        |context: Context<Log>, (): ()| async move {
            context.state().add(&context, "started");
            context.cancelled().await;
            let cause = context.cancel_cause().expect("a cause");
            context.state().add(&context, format!("{cause:?}"));
            Err::<(), _>(JobError::new("stopped"))
        },
    ));
    let id = rig.enqueue("k", "null").await;
    until("it has started", || async { log.has("started") }).await;
    let block = rig.block().await;
    let began = Instant::now();
    until("the handler is cancelled", || async { log.has("LeaseLost") }).await;
    assert!(began.elapsed() < lease + SLACK, "{:?} after the block", began.elapsed());
    assert_eq!(running.handle.metrics().leases_lost, 1);
    drop(block);
    until("its verdict is answered", || async { running.handle.metrics().settling == 0 }).await;
    // Nobody had reaped it, so its late verdict is the one that counts (rule O5), or somebody had (rule S7).
    until("the attempt has ended", || async { !rig.backend.attempts(id).await.unwrap().is_empty() }).await;
    assert!(rig.backend.attempts(id).await.unwrap()[0].charged);
    // The worker goes on as if nothing had happened.
    rig.backend.cancel(id, false).await.unwrap();
    let next = rig.enqueue("k", "null").await;
    until("the next job starts", || async { log.all().iter().any(|(job, ..)| *job == next) }).await;
    running.stop().await;
}

/// Known fault B50, barriers 2 and 3; rule P2.
async fn a_cancel_reaches_the_handler_within_a_heartbeat(rig: Arc<Rig>) {
    let log = Log::default();
    let running =
        Running::start(worker(&rig, &log).handler("k", |context: Context<Log>, (): ()| async move {
            context.state().add(&context, "started");
            context.cancelled().await;
            assert_eq!(context.cancel_cause(), Some(CancelCause::Requested));
            Err::<(), _>(JobError::new("as asked"))
        }));
    let id = rig.enqueue("k", "null").await;
    until("it has started", || async { log.has("started") }).await;
    assert_eq!(rig.backend.cancel(id, false).await.unwrap(), CancelAnswer::Requested);
    let asked = Instant::now();
    until_state(&rig, id, State::Cancelled).await;
    assert!(asked.elapsed() < Duration::from_secs(1) + SLACK, "{:?}", asked.elapsed());
    assert_eq!(running.stop().await.metrics.cancelled, 1);
}

/// Known fault B50, barrier 4: the winner is decided in the settle.
async fn a_cancel_that_comes_after_the_handler_has_succeeded_changes_nothing(rig: Arc<Rig>) {
    let log = Log::default();
    let running =
        Running::start(worker(&rig, &log).handler("k", |context: Context<Log>, (): ()| async move {
            context.state().add(&context, "started");
            context.cancelled().await;
            Ok(())
        }));
    let id = rig.enqueue("k", "null").await;
    until("it has started", || async { log.has("started") }).await;
    assert_eq!(rig.backend.cancel(id, false).await.unwrap(), CancelAnswer::Requested);
    until_state(&rig, id, State::Succeeded).await;
    assert_eq!(rig.backend.cancel(id, true).await.unwrap(), CancelAnswer::TooLate(State::Succeeded));
    running.stop().await;
}

/// Rules F2, H4: what waits in the buffer is kept, reported when it starts, and never charged for waiting.
async fn buffered_jobs_are_kept_by_heartbeats_and_go_back_uncharged(rig: Arc<Rig>) {
    let log = Log::default();
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let inner = Arc::clone(&gate);
    let lease = Duration::from_millis(1500);
    let running = Running::start(
        worker(&rig, &log)
            .lease(lease)
            .concurrency(1)
            .prefetch(5)
            .handler("warm", |_: Context<Log>, (): ()| async { Ok(()) })
            .handler("k", move |context: Context<Log>, (): ()| {
                let gate = Arc::clone(&inner);
                async move {
                    context.state().add(&context, "started");
                    gate.acquire().await.map_err(JobError::new)?.forget();
                    Ok(())
                }
            }),
    );
    // Prefetching begins when the worker knows how long handlers run.
    for _ in 0..3 {
        let warm = rig.enqueue("warm", "null").await;
        until_state(&rig, warm, State::Succeeded).await;
    }
    let jobs: Vec<NewJob> = (0..4).map(|_| NewJob::new(&rig.queue, "k", "null")).collect();
    let ids: Vec<_> = rig.backend.enqueue(&jobs).await.unwrap().into_iter().map(|answer| answer.id).collect();
    until("jobs wait in the buffer", || async { running.handle.metrics().buffered >= 1 }).await;
    let unstarted = format!(
        "SELECT count(*) FROM {} WHERE queue = '{}' AND state = 'running' AND started_at IS NULL",
        rig.table("job"),
        rig.queue
    );
    assert!(rig.number(&unstarted).await >= 1, "the database knows that they have not started");
    until("they waited too long and went back", || async { running.handle.metrics().released >= 1 }).await;
    gate.add_permits(100);
    for id in ids {
        until_state(&rig, id, State::Succeeded).await;
        let record = rig.job(id).await;
        assert_eq!(record.failures, 0);
        let attempts = rig.backend.attempts(id).await.unwrap();
        assert!(attempts.iter().all(|attempt| attempt.verb != Verb::Expire), "{attempts:?}");
    }
    assert_eq!(running.stop().await.metrics.leases_lost, 0);
}
