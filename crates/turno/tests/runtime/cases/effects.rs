//! Enqueues and settles whose answers are lost, and jobs that complete in the handler's own transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use turno::{Completion, Context, ErrorKind, NewJob, Queue, State};

use super::cases;
use crate::kit::{Log, Running, until, until_state, worker};
use crate::proxy::Proxy;
use crate::rig::Rig;

/// In the server's answer to a statement that called a routine and returned one row.
const ENQUEUED: &str = "SELECT 1\0";

cases![
    #[sqlite]
    a_job_completed_in_its_handlers_transaction_is_already_settled,
    an_enqueue_to_another_queue_is_refused,
    #[sqlite]
    a_busy_enqueue_is_repeated_for_as_long_as_patience_lasts,
    #[postgres]
    an_enqueue_without_a_key_whose_answer_was_lost_goes_up_and_says_so,
    #[postgres]
    an_enqueue_with_a_key_whose_answer_was_lost_makes_one_job,
    #[postgres]
    a_claim_whose_answer_was_lost_is_repeated_with_its_token,
    #[postgres]
    a_shutdown_asks_what_a_lost_claim_holds_and_gives_it_back,
    #[postgres]
    a_settle_whose_answer_was_lost_is_not_done_twice,
];

/// Rules S4, S5: the effect and the completion commit together, and the worker's own completion finds it done.
async fn a_job_completed_in_its_handlers_transaction_is_already_settled(rig: Arc<Rig>) {
    let log = Log::default();
    rig.execute("CREATE TABLE effect (job INTEGER)").await;
    let path = rig.url.trim_start_matches("sqlite:").to_owned();
    let running = Running::start(worker(&rig, &log).handler("k", move |context: Context<Log>, (): ()| {
        let path = path.clone();
        async move {
            let mut connection = rusqlite::Connection::open(path)?;
            connection.busy_timeout(Duration::from_secs(20))?;
            let mut transaction = turno::sqlite::SettlingTransaction::begin(&mut connection)?;
            transaction.execute("INSERT INTO effect (job) VALUES (?1)", [context.job().proof.job.0])?;
            let completion = Completion { proof: context.proof(), result: Some("\"mine\"".into()) };
            turno::sqlite::complete_in(&mut transaction, context.worker(), &completion)?;
            transaction.commit()?;
            Ok("the worker's")
        }
    }));
    let id = rig.enqueue("k", "null").await;
    until("the worker's completion is answered", || async { running.handle.metrics().already == 1 }).await;
    let record = rig.job(id).await;
    assert_eq!((record.state, record.result.as_deref()), (State::Succeeded, Some("\"mine\"")));
    assert_eq!(rig.number("SELECT count(*) FROM effect").await, 1);
    let metrics = running.stop().await.metrics;
    assert_eq!((metrics.refused, metrics.succeeded), (0, 1));
}

async fn an_enqueue_to_another_queue_is_refused(rig: Arc<Rig>) {
    let error = rig.queue().enqueue_job(NewJob::new("elsewhere", "k", "1")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("elsewhere") && error.message().contains(&rig.queue), "{error}");
    assert_eq!(rig.queue().enqueue_many(&[]).await.unwrap(), []);
}

/// Rule X3: busy is known not to have been carried out, so it may be repeated without a key.
async fn a_busy_enqueue_is_repeated_for_as_long_as_patience_lasts(rig: Arc<Rig>) {
    let backend = turno::connect(&format!("{}?busy_timeout_ms=5", rig.url)).await.unwrap();
    let queue = Queue::new(backend, &rig.queue);
    let block = rig.block().await;
    let impatient = queue.clone().patience(Duration::from_millis(200));
    let error = impatient.enqueue("k", &1).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome_is_unknown()), (ErrorKind::Busy, false));
    let task = tokio::spawn(async move { queue.enqueue("k", &2).await });
    drop(block);
    let answer = task.await.unwrap().unwrap();
    assert!(answer.created);
    assert_eq!(rig.job(answer.id).await.payload.as_deref(), Some("2"));
}

/// Known fault B48; rule E6.
async fn an_enqueue_without_a_key_whose_answer_was_lost_goes_up_and_says_so(rig: Arc<Rig>) {
    let proxy = Proxy::start(&rig.url).await;
    let queue = Queue::new(turno::connect(&proxy.url).await.unwrap(), &rig.queue);
    // The connection has made its preparations by then.
    queue.enqueue("warm", &1).await.unwrap();
    proxy.lose_answers_from(ENQUEUED);
    let task = tokio::spawn(async move { queue.enqueue("k", &1).await });
    until("the job is there", || async { count(&rig, "k").await == 1 }).await;
    until("its answer is lost", || async { proxy.has_lost() }).await;
    proxy.break_connections();
    let error = task.await.unwrap().unwrap_err();
    assert!(error.outcome_is_unknown(), "{error}");
    assert_eq!(count(&rig, "k").await, 1);
}

/// Known fault B48; rule E6.
async fn an_enqueue_with_a_key_whose_answer_was_lost_makes_one_job(rig: Arc<Rig>) {
    let proxy = Proxy::start(&rig.url).await;
    let queue = Queue::new(turno::connect(&proxy.url).await.unwrap(), &rig.queue);
    let job = queue.job("k", &1).unwrap().idempotency_key("once");
    // The connection has made its preparations by then.
    queue.enqueue("warm", &1).await.unwrap();
    proxy.lose_answers_from(ENQUEUED);
    let task = tokio::spawn(async move { queue.enqueue_job(job).await });
    until("the job is there", || async { count(&rig, "k").await == 1 }).await;
    until("its answer is lost", || async { proxy.has_lost() }).await;
    proxy.break_connections();
    let answer = task.await.unwrap().unwrap();
    assert!(!answer.created, "the second call finds what the first one made");
    assert_eq!(count(&rig, "k").await, 1);
}

/// Rule C5: the jobs of a lost claim are not left to their lease.
async fn a_claim_whose_answer_was_lost_is_repeated_with_its_token(rig: Arc<Rig>) {
    let log = Log::default();
    let proxy = Proxy::start(&rig.url).await;
    let backend = turno::connect(&proxy.url).await.unwrap();
    let running = Running::start(
        turno::Worker::builder(backend)
            .state(log.clone())
            .queue(&rig.queue)
            .lease(Duration::from_secs(60))
            .raw_handler(|context: Context<Log>, _| async move {
                context.state().add(&context, "ran");
                Ok(None)
            }),
    );
    until("it sleeps", || async { running.handle.is_idle() }).await;
    proxy.lose_answers_from("the payload of the lost claim");
    let id = rig.enqueue("k", "\"the payload of the lost claim\"").await;
    until_state(&rig, id, State::Running).await;
    assert!(!log.has("ran"), "the worker does not know of it");
    until("its answer is lost", || async { proxy.has_lost() }).await;
    proxy.break_connections();
    until_state(&rig, id, State::Succeeded).await;
    let record = rig.job(id).await;
    assert_eq!((record.attempt, record.failures, log.count("ran")), (1, 0, 1));
    running.stop().await;
}

/// Known fault B52 meets a lost answer: the claim's jobs are released, not left to a lease of a minute.
async fn a_shutdown_asks_what_a_lost_claim_holds_and_gives_it_back(rig: Arc<Rig>) {
    let log = Log::default();
    let proxy = Proxy::start(&rig.url).await;
    let running = Running::start(
        turno::Worker::builder(turno::connect(&proxy.url).await.unwrap())
            .state(log.clone())
            .queue(&rig.queue)
            .lease(Duration::from_secs(60))
            .raw_handler(|_, _| async { Ok(None) }),
    );
    until("it sleeps", || async { running.handle.is_idle() }).await;
    proxy.lose_answers_from("the payload of the lost claim");
    let id = rig.enqueue("k", "\"the payload of the lost claim\"").await;
    until_state(&rig, id, State::Running).await;
    running.handle.shutdown();
    until("its answer is lost", || async { proxy.has_lost() }).await;
    proxy.break_connections();
    let report = running.ended().await;
    assert_eq!(report.metrics.started, 0);
    assert_eq!(report.released.iter().map(|line| line.job).collect::<Vec<_>>(), [id]);
    let record = rig.job(id).await;
    assert_eq!((record.state, record.attempt, record.failures), (State::Ready, 1, 0));
}

/// Rule S4.
async fn a_settle_whose_answer_was_lost_is_not_done_twice(rig: Arc<Rig>) {
    let log = Log::default();
    let proxy = Proxy::start(&rig.url).await;
    let backend = turno::connect(&proxy.url).await.unwrap();
    let (runs, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Semaphore::new(0)));
    let (inner_runs, inner_gate) = (Arc::clone(&runs), Arc::clone(&gate));
    let running = Running::start(
        turno::Worker::builder(backend)
            .state(log.clone())
            .queue(&rig.queue)
            .lease(Duration::from_secs(60))
            .handler("k", move |_: Context<Log>, (): ()| {
                let (runs, gate) = (Arc::clone(&inner_runs), Arc::clone(&inner_gate));
                async move {
                    gate.acquire().await.map_err(turno::JobError::new)?.forget();
                    Ok(runs.fetch_add(1, Ordering::SeqCst))
                }
            }),
    );
    let id = rig.enqueue("k", "null").await;
    until("it runs", || async { running.handle.metrics().running == 1 }).await;
    proxy.lose_answers_from("succeeded");
    gate.add_permits(1);
    until_state(&rig, id, State::Succeeded).await;
    assert_eq!(running.handle.metrics().succeeded, 0, "the worker does not know of it");
    until("its answer is lost", || async { proxy.has_lost() }).await;
    proxy.break_connections();
    until("its completion is answered", || async { running.handle.metrics().succeeded == 1 }).await;
    let metrics = running.stop().await.metrics;
    assert_eq!((metrics.already, metrics.refused, runs.load(Ordering::SeqCst)), (1, 0, 1));
    assert_eq!(rig.job(id).await.result.as_deref(), Some("0"));
}

async fn count(rig: &Rig, kind: &str) -> i64 {
    let (job, queue) = (rig.table("job"), &rig.queue);
    rig.number(&format!("SELECT count(*) FROM {job} WHERE queue = '{queue}' AND kind = '{kind}'")).await
}
