//! How often the worker asks: pauses, the doorbell, the next due job, and an outage.

use std::sync::Arc;
use std::time::{Duration, Instant};

use turno::{NewJob, State};

use super::cases;
use crate::kit::{Log, Running, SLACK, until, until_state, worker};
use crate::rig::Rig;

cases![
    an_idle_worker_asks_less_and_less_often,
    the_doorbell_ends_a_pause,
    a_scheduled_job_ends_a_pause_when_it_is_due,
    records_whose_time_is_over_are_removed,
    #[sqlite]
    the_worker_outlives_an_outage_and_bounds_its_attempts,
    #[postgres]
    the_worker_outlives_the_loss_of_all_its_connections,
];

/// Rule W1; known faults B41 and B56: neither an empty queue nor a job far away makes it spin.
async fn an_idle_worker_asks_less_and_less_often(rig: Arc<Rig>) {
    let log = Log::default();
    let far = time::OffsetDateTime::now_utc() + Duration::from_secs(3600);
    rig.enqueue_job(NewJob::new(&rig.queue, "k", "1").run_at(far)).await;
    let began = Instant::now();
    let running = Running::start(worker(&rig, &log).raw_handler(|_, _| async { Ok(None) }));
    until("it found nothing eight times", || async { running.handle.metrics().claims_empty >= 8 }).await;
    // Two looks before the first pause; then 20, 40, 80, 160, 320, 640 ms, each less a quarter at most.
    assert!(began.elapsed() > Duration::from_millis(900), "{:?}", began.elapsed());
    running.stop().await;
}

/// Rule P7: retention holds where a worker runs, without anybody's timer.
async fn records_whose_time_is_over_are_removed(rig: Arc<Rig>) {
    let log = Log::default();
    let soon = turno::SettingsChange {
        keep_succeeded: Some(turno::Keep::For(Duration::from_millis(1))),
        ..Default::default()
    };
    rig.backend.queue_set(Some(&rig.queue), &soon).await.unwrap();
    let job = rig.enqueue("k", "1").await;
    let often = Duration::from_millis(20);
    let builder = worker(&rig, &log).reap_every(often).prune_every(often);
    let running = Running::start(builder.raw_handler(|_, _| async { Ok(None) }));
    until("the record is gone", || async { rig.backend.job(job).await.unwrap().is_none() }).await;
    running.stop().await;
}

/// Rule W2.
async fn the_doorbell_ends_a_pause(rig: Arc<Rig>) {
    let log = Log::default();
    let pause = Duration::from_secs(300);
    let running =
        Running::start(worker(&rig, &log).poll(pause, pause).raw_handler(|_, _| async { Ok(None) }));
    for round in 0..3 {
        until("it sleeps", || async { running.handle.is_idle() }).await;
        let id = rig.enqueue("k", "1").await;
        until_state(&rig, id, State::Succeeded).await;
        assert!(running.handle.metrics().rings > round, "{:?}", running.handle.metrics());
    }
    // Another process's enqueue rings as well.
    until("it sleeps", || async { running.handle.is_idle() }).await;
    let other = rig.another_backend().await;
    let id = other.enqueue(&[NewJob::new(&rig.queue, "k", "1")]).await.unwrap()[0].id;
    until_state(&rig, id, State::Succeeded).await;
    running.stop().await;
}

async fn a_scheduled_job_ends_a_pause_when_it_is_due(rig: Arc<Rig>) {
    let log = Log::default();
    let soon = time::OffsetDateTime::now_utc() + Duration::from_millis(1500);
    let id = rig.enqueue_job(NewJob::new(&rig.queue, "k", "1").run_at(soon)).await;
    let pause = Duration::from_secs(300);
    let running = Running::start(
        worker(&rig, &log).poll(pause, pause).reap_every(pause).raw_handler(|_, _| async { Ok(None) }),
    );
    until_state(&rig, id, State::Succeeded).await;
    let record = rig.job(id).await;
    let late = record.claimed_at.unwrap() - record.run_at;
    assert!(late >= time::Duration::ZERO && late < SLACK, "{late}");
    assert!(running.stop().await.metrics.claims < 10);
}

/// Known fault B56.
async fn the_worker_outlives_an_outage_and_bounds_its_attempts(rig: Arc<Rig>) {
    let log = Log::default();
    // Busy at once instead of after 10 s, so that the worker's own back-off is what is measured.
    let backend = turno::connect(&format!("{}?busy_timeout_ms=5", rig.url)).await.unwrap();
    let running = Running::start(
        turno::Worker::builder(backend)
            .state(log.clone())
            .queue(&rig.queue)
            .lease(Duration::from_secs(60))
            .raw_handler(|_, _| async { Ok(None) }),
    );
    let first = rig.enqueue("k", "1").await;
    until_state(&rig, first, State::Succeeded).await;
    let block = rig.block().await;
    let before = running.handle.metrics().transient_errors;
    let began = Instant::now();
    until("ten calls have failed", || async { running.handle.metrics().transient_errors >= before + 10 })
        .await;
    assert!(began.elapsed() > Duration::from_secs(1), "ten failures within {:?}", began.elapsed());
    drop(block);
    let back = Instant::now();
    let second = rig.enqueue("k", "1").await;
    until_state(&rig, second, State::Succeeded).await;
    assert!(back.elapsed() < Duration::from_secs(3) + SLACK, "{:?} to recover", back.elapsed());
    running.stop().await;
}

/// Known faults B53, B56.
async fn the_worker_outlives_the_loss_of_all_its_connections(rig: Arc<Rig>) {
    let log = Log::default();
    let name = format!("worker_{}", rig.queue);
    let join = if rig.url.contains('?') { '&' } else { '?' };
    let backend = turno::connect(&format!("{}{join}application_name={name}", rig.url)).await.unwrap();
    let pause = Duration::from_secs(2);
    let running = Running::start(
        turno::Worker::builder(backend)
            .state(log.clone())
            .queue(&rig.queue)
            .poll(Duration::from_millis(20), pause)
            .raw_handler(|_, _| async { Ok(None) }),
    );
    for _ in 0..3 {
        let id = rig.enqueue("k", "1").await;
        until_state(&rig, id, State::Succeeded).await;
        rig.execute(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{name}'"
        ))
        .await;
    }
    let id = rig.enqueue("k", "1").await;
    until_state(&rig, id, State::Succeeded).await;
    running.stop().await;
}
