//! The end of a worker (known fault B52): handlers that end, that obey, that ignore; buffered jobs; an absent database.

use std::sync::Arc;
use std::time::{Duration, Instant};

use turno::{CancelCause, Context, ErrorKind, JobError, NewJob, State, StoppedBy, Verb, Worker};

use super::cases;
use crate::kit::{Log, Running, SLACK, until, until_state, worker};
use crate::rig::Rig;

cases![
    at_a_shutdown_each_handler_gets_what_it_deserves,
    stop_now_gives_up_everything_at_once,
    a_shutdown_begins_no_more_claims_and_gives_buffered_jobs_back,
    a_shutdown_before_the_start_ends_at_once,
    dropping_the_future_of_run_stops_the_worker,
    a_shutdown_does_not_wait_for_an_absent_database,
    a_database_without_a_schema_ends_the_worker_with_one_error,
    a_handler_that_blocks_its_thread_is_left_to_its_lease,
];

/// Known fault B52 (a), (b), (c).
async fn at_a_shutdown_each_handler_gets_what_it_deserves(rig: Arc<Rig>) {
    let log = Log::default();
    let grace = Duration::from_secs(1);
    let running =
        Running::start(worker(&rig, &log).lease(Duration::from_secs(60)).shutdown_grace(grace).handler(
            "k",
            |context: Context<Log>, what: String| async move {
                context.state().add(&context, "started");
                match what.as_str() {
                    "ends" => {
                        context.cancelled().await;
                        tokio::time::sleep(Duration::from_millis(200)).await;
                        Ok(())
                    }
                    "obeys" => {
                        context.cancelled().await;
                        assert_eq!(context.cancel_cause(), Some(CancelCause::Shutdown));
                        Err(JobError::new("stopped, as asked"))
                    }
                    _ => std::future::pending().await,
                }
            },
        ));
    let mut ids = Vec::new();
    for what in ["ends", "obeys", "ignores"] {
        ids.push(rig.queue().enqueue("k", what).await.unwrap().id);
    }
    until("all have started", || async { log.count("started") == 3 }).await;
    let began = Instant::now();
    let report = running.stop().await;
    assert!(began.elapsed() < grace + Duration::from_secs(1) + SLACK, "{:?}", began.elapsed());
    assert_eq!(report.stopped_by, StoppedBy::Shutdown);
    assert_eq!(rig.state(ids[0]).await, State::Succeeded);
    let obeyed = rig.backend.attempts(ids[1]).await.unwrap().remove(0);
    assert_eq!((obeyed.verb, obeyed.charged), (Verb::Release, false));
    assert_eq!(rig.state(ids[1]).await, State::Ready);
    let ignored = rig.backend.attempts(ids[2]).await.unwrap().remove(0);
    assert_eq!((ignored.verb, ignored.charged), (Verb::Fail, true));
    assert!(ignored.error.unwrap().contains("did not stop within 1s"));
    assert_eq!(report.released.iter().map(|line| line.job).collect::<Vec<_>>(), [ids[1]]);
    assert_eq!(report.given_up.iter().map(|line| line.job).collect::<Vec<_>>(), [ids[2]]);
    assert!(report.left_to_lease.is_empty());
    // Another worker starts both at once, although the lease would have been a minute.
    let next = Running::start(worker(&rig, &log).raw_handler(|_, _| async { Ok(None) }));
    until_state(&rig, ids[1], State::Succeeded).await;
    until_state(&rig, ids[2], State::Succeeded).await;
    assert!(began.elapsed() < Duration::from_secs(20));
    next.stop().await;
}

async fn stop_now_gives_up_everything_at_once(rig: Arc<Rig>) {
    let log = Log::default();
    let running = Running::start(worker(&rig, &log).shutdown_grace(Duration::from_secs(600)).handler(
        "k",
        |context: Context<Log>, (): ()| async move {
            context.state().add(&context, "started");
            std::future::pending::<()>().await;
            Ok(())
        },
    ));
    let id = rig.enqueue("k", "null").await;
    until("it has started", || async { log.has("started") }).await;
    running.handle.shutdown();
    until("the shutdown has begun", || async { running.handle.is_shutting_down() }).await;
    let began = Instant::now();
    running.handle.stop_now();
    let report = running.ended().await;
    assert!(began.elapsed() < Duration::from_secs(1) + SLACK, "{:?}", began.elapsed());
    assert_eq!(report.stopped_by, StoppedBy::StopNow);
    assert_eq!(report.given_up.len(), 1);
    assert_ne!(rig.state(id).await, State::Running);
}

async fn a_shutdown_begins_no_more_claims_and_gives_buffered_jobs_back(rig: Arc<Rig>) {
    let log = Log::default();
    let running = Running::start(
        worker(&rig, &log).lease(Duration::from_secs(60)).concurrency(2).kind_concurrency("k", 1).handler(
            "k",
            |context: Context<Log>, (): ()| async move {
                context.state().add(&context, "started");
                context.cancelled().await;
                Ok(())
            },
        ),
    );
    let jobs: Vec<NewJob> = (0..20).map(|_| NewJob::new(&rig.queue, "k", "null")).collect();
    let ids: Vec<_> = rig.backend.enqueue(&jobs).await.unwrap().into_iter().map(|answer| answer.id).collect();
    until("one runs and one waits", || async {
        let metrics = running.handle.metrics();
        metrics.running == 1 && metrics.buffered >= 1
    })
    .await;
    let report = running.stop().await;
    assert_eq!(report.metrics.started, 1);
    assert!((1..=3).contains(&report.released.len()), "{report:?}");
    let running_now = format!(
        "SELECT count(*) FROM {} WHERE queue = '{}' AND state = 'running'",
        rig.table("job"),
        rig.queue
    );
    assert_eq!(rig.number(&running_now).await, 0);
    for id in ids {
        assert_eq!(rig.job(id).await.failures, 0);
    }
}

async fn a_shutdown_before_the_start_ends_at_once(rig: Arc<Rig>) {
    let log = Log::default();
    let id = rig.enqueue("k", "1").await;
    let worker = worker(&rig, &log).raw_handler(|_, _| async { Ok(None) }).build().unwrap();
    worker.handle().shutdown();
    let report = worker.run().await.unwrap();
    assert_eq!(report.metrics.started, 0);
    assert_eq!(rig.state(id).await, State::Ready);
}

async fn dropping_the_future_of_run_stops_the_worker(rig: Arc<Rig>) {
    let log = Log::default();
    let worker = worker(&rig, &log).raw_handler(|_, _| std::future::pending()).build().unwrap();
    let handle = worker.handle();
    let id = rig.enqueue("k", "1").await;
    tokio::select! {
        _ = worker.run() => panic!("nobody stopped it"),
        () = until("it runs", || async { handle.metrics().running == 1 }) => {}
    }
    tokio::time::timeout(Duration::from_secs(5), handle.finished()).await.expect("it ends");
    assert_ne!(rig.state(id).await, State::Running);
}

async fn a_shutdown_does_not_wait_for_an_absent_database(rig: Arc<Rig>) {
    let log = Log::default();
    let running = Running::start(worker(&rig, &log).shutdown_grace(Duration::from_millis(500)).handler(
        "k",
        |context: Context<Log>, (): ()| async move {
            context.state().add(&context, "started");
            context.cancelled().await;
            Err::<(), _>(JobError::new("stopped"))
        },
    ));
    let id = rig.enqueue("k", "null").await;
    until("it has started", || async { log.has("started") }).await;
    let block = rig.block().await;
    let began = Instant::now();
    let report = running.stop().await;
    assert!(began.elapsed() < Duration::from_millis(1500) + SLACK, "{:?}", began.elapsed());
    assert_eq!(report.left_to_lease.iter().map(|line| line.job).collect::<Vec<_>>(), [id]);
    assert!(report.released.is_empty(), "it did not get through");
    drop(block);
}

async fn a_database_without_a_schema_ends_the_worker_with_one_error(_: Arc<Rig>) {
    let folder = tempfile::tempdir().unwrap();
    let backend =
        turno::connect(&format!("sqlite:{}", folder.path().join("empty.db").display())).await.unwrap();
    let worker = Worker::builder(backend).queue("q").raw_handler(|_, _| async { Ok(None) }).build().unwrap();
    let error = tokio::time::timeout(Duration::from_secs(5), worker.run()).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::VersionMismatch, "{error}");
}

/// A thread cannot be stopped from outside: its job must not be handed on while it still runs.
async fn a_handler_that_blocks_its_thread_is_left_to_its_lease(rig: Arc<Rig>) {
    let log = Log::default();
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let receiver = Arc::new(std::sync::Mutex::new(receiver));
    let running = Running::start(worker(&rig, &log).shutdown_grace(Duration::from_millis(300)).handler(
        "k",
        move |context: Context<Log>, (): ()| {
            let receiver = Arc::clone(&receiver);
            async move {
                context.state().add(&context, "started");
                // Blocks until the case ends.
                let _ = receiver.lock().map_err(JobError::new)?.recv();
                Ok(())
            }
        },
    ));
    let id = rig.enqueue("k", "null").await;
    until("it has started", || async { log.has("started") }).await;
    let report = running.stop().await;
    assert_eq!(report.left_to_lease.len(), 1);
    assert_eq!(report.left_to_lease[0].reason, "its handler could not be stopped");
    assert_eq!(rig.state(id).await, State::Running);
    drop(sender);
}
