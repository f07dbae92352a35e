//! Cases about the metrics: everything is there before the first job, what happens is counted once, and no job can make
//! labels without a bound.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use turno::prometheus::Metrics;
use turno::{Context, JobError, NewJob, State};

use super::cases;
use crate::kit::{Log, Running, until, until_state, worker};
use crate::rig::Rig;

cases![
    every_metric_is_there_before_the_first_job,
    what_happens_to_jobs_is_counted_by_kind_and_outcome,
    the_state_of_the_queues_is_asked_at_each_scrape,
    without_a_database_there_are_no_stale_gauges,
];

/// The samples of a scrape by their name with labels.
async fn scrape(rig: &Rig, metrics: &Metrics) -> BTreeMap<String, f64> {
    let text = metrics.render(rig.backend.as_ref()).await;
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            (name.to_owned(), value.parse().expect("a number"))
        })
        .collect()
}

fn value(samples: &BTreeMap<String, f64>, name: &str) -> f64 {
    *samples.get(name).unwrap_or_else(|| panic!("{name} is missing in {samples:#?}"))
}

async fn every_metric_is_there_before_the_first_job(rig: Arc<Rig>) {
    let metrics = Metrics::new();
    let log = Log::default();
    let built = worker(&rig, &log)
        .handler("known", |_: Context<Log>, (): ()| async { Ok::<(), JobError>(()) })
        .metrics(&metrics)
        .build()
        .expect("good settings");
    let samples = scrape(&rig, &metrics).await;
    for kind in ["known", "other"] {
        for outcome in ["succeeded", "retried", "dead", "released", "cancelled", "refused", "gone"] {
            let name = format!("turno_attempts_ended_total{{kind=\"{kind}\",outcome=\"{outcome}\"}}");
            assert_eq!(value(&samples, &name), 0.0);
        }
        for name in ["start", "finish", "run"] {
            assert_eq!(value(&samples, &format!("turno_{name}_seconds_count{{kind=\"{kind}\"}}")), 0.0);
        }
    }
    for state in ["ready", "scheduled", "running", "dead"] {
        let name = format!("turno_queue_jobs{{queue=\"{}\",state=\"{state}\"}}", rig.queue);
        assert_eq!(value(&samples, &name), 0.0);
    }
    for name in ["turno_claims_total", "turno_heartbeat_delay_seconds_count", "turno_verdicts_unsent_total"] {
        assert_eq!(value(&samples, name), 0.0);
    }
    assert_eq!(value(&samples, "turno_errors_total{operation=\"claim\",error=\"unavailable\"}"), 0.0);
    assert_eq!((value(&samples, "turno_database_up"), value(&samples, "turno_workers")), (1.0, 1.0));
    drop(built);
}

async fn what_happens_to_jobs_is_counted_by_kind_and_outcome(rig: Arc<Rig>) {
    let (metrics, log) = (Metrics::new(), Log::default());
    let good = rig.enqueue("good", "null").await;
    let bad = rig.enqueue_job(NewJob::new(&rig.queue, "bad", "null").max_attempts(2)).await;
    let strange = rig.enqueue("strange", "null").await;
    let builder = worker(&rig, &log)
        .handler("good", |_: Context<Log>, (): ()| async { Ok::<(), JobError>(()) })
        .handler("bad", |_: Context<Log>, (): ()| async {
            Err::<(), _>(JobError::new("why").retry_in(Duration::ZERO))
        })
        .raw_handler(|_, _| async { Ok(None) })
        .metrics(&metrics);
    let running = Running::start(builder);
    until_state(&rig, good, State::Succeeded).await;
    until_state(&rig, bad, State::Dead).await;
    until_state(&rig, strange, State::Succeeded).await;
    let report = running.stop().await;
    let samples = scrape(&rig, &metrics).await;
    let ended = |kind: &str, outcome: &str| {
        value(&samples, &format!("turno_attempts_ended_total{{kind=\"{kind}\",outcome=\"{outcome}\"}}"))
    };
    assert_eq!((ended("good", "succeeded"), ended("bad", "retried"), ended("bad", "dead")), (1.0, 1.0, 1.0));
    assert_eq!(
        ended("other", "succeeded"),
        1.0,
        "a kind without a handler of its own has no label of its own"
    );
    assert!(!samples.keys().any(|name| name.contains("strange")), "{samples:#?}");
    let of = |name: &str, kind: &str| value(&samples, &format!("turno_{name}{{kind=\"{kind}\"}}"));
    assert_eq!((of("claimed_jobs_total", "bad"), of("attempts_started_total", "bad")), (2.0, 2.0));
    assert_eq!((of("start_seconds_count", "bad"), of("run_seconds_count", "bad")), (2.0, 2.0));
    assert_eq!((of("finish_seconds_count", "bad"), of("finish_seconds_count", "good")), (1.0, 1.0));
    assert!(of("finish_seconds_sum", "good") >= of("start_seconds_sum", "good"));
    // The worker has ended, and its counters stay.
    assert_eq!(value(&samples, "turno_workers"), 0.0);
    assert_eq!(value(&samples, "turno_claims_total"), report.metrics.claims as f64);
    assert!(report.metrics.claims > 0);
}

async fn the_state_of_the_queues_is_asked_at_each_scrape(rig: Arc<Rig>) {
    for n in 0..3 {
        rig.enqueue("k", &n.to_string()).await;
    }
    let elsewhere = NewJob::new("elsewhere \"\\", "k", "null");
    rig.enqueue_job(elsewhere).await;
    let metrics = Metrics::new();
    let samples = scrape(&rig, &metrics).await;
    assert_eq!(value(&samples, "turno_queue_jobs{queue=\"q\",state=\"ready\"}"), 3.0);
    assert_eq!(value(&samples, "turno_queue_jobs{queue=\"elsewhere \\\"\\\\\",state=\"ready\"}"), 1.0);
    let only = Metrics::new().queues(&["q".to_owned(), "empty".to_owned()]);
    let samples = scrape(&rig, &only).await;
    assert_eq!(value(&samples, "turno_queue_paused{queue=\"empty\"}"), 0.0);
    assert!(!samples.keys().any(|name| name.contains("elsewhere")));
    rig.backend.pause("q").await.expect("paused");
    until("a later scrape shows the pause", || async {
        value(&scrape(&rig, &only).await, "turno_queue_paused{queue=\"q\"}") == 1.0
    })
    .await;
}

async fn without_a_database_there_are_no_stale_gauges(rig: Arc<Rig>) {
    rig.enqueue("k", "null").await;
    let metrics = Metrics::new().queues(&["q".to_owned()]);
    assert_eq!(value(&scrape(&rig, &metrics).await, "turno_queue_jobs{queue=\"q\",state=\"ready\"}"), 1.0);
    // Both engines answer an error once what `stats` reads is gone.
    let cascade = if rig.engine == turno::Engine::Postgres { " CASCADE" } else { "" };
    rig.execute(&format!("DROP TABLE {}{cascade}", rig.table("attempt"))).await;
    until("the gauges are gone", || async {
        let samples = scrape(&rig, &metrics).await;
        value(&samples, "turno_database_up") == 0.0 && !samples.keys().any(|name| name.contains("queue="))
    })
    .await;
    assert_eq!(value(&scrape(&rig, &metrics).await, "turno_claims_total"), 0.0);
}
