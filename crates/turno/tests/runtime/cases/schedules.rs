//! Cases about schedules: workers fire them in time, whoever they are, and one that cannot be fired harms no other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use turno::prometheus::Metrics;
use turno::{ErrorKind, JobFilter, JobRecord, Missed, PutAnswer, Schedule, Schedules, State};

use super::cases;
use crate::kit::{Log, Running, SLACK, until, worker};
use crate::rig::Rig;

cases![
    a_worker_fires_a_schedule_in_time,
    two_workers_make_one_job_an_instant,
    a_put_rings_for_a_sleeping_worker,
    one_schedule_that_cannot_be_fired_stops_no_other,
    missed_instants_are_made_up_for_after_an_outage,
    an_expression_that_is_none_is_refused_before_anything_is_written,
    a_worker_may_leave_schedules_to_others,
    a_late_schedule_is_a_metric,
];

const FAR: Duration = Duration::from_secs(300);

/// A schedule for every second, whose jobs say their instant.
fn every_second(rig: &Rig) -> Schedule {
    Schedule::new("every second", "* * * * * *", &rig.queue, "k").payload(r#""{instant}""#)
}

async fn finished(rig: &Rig) -> Vec<JobRecord> {
    let filter = JobFilter { state: State::Succeeded, queue: None, kind: None, before: None, limit: 1000 };
    rig.backend.jobs(&filter).await.expect("answered").jobs
}

/// When the job was to be made, by its payload.
fn instant(job: &JobRecord) -> time::OffsetDateTime {
    let payload = job.payload.as_deref().expect("a payload").trim_matches('"');
    time::OffsetDateTime::parse(payload, &time::format_description::well_known::Rfc3339).expect("an instant")
}

/// Rule K2.
async fn a_worker_fires_a_schedule_in_time(rig: Arc<Rig>) {
    let log = Log::default();
    assert_eq!(
        Schedules::new(rig.backend.clone()).put(&every_second(&rig)).await.unwrap(),
        PutAnswer::Created
    );
    let running = Running::start(worker(&rig, &log).raw_handler(|_, _| async { Ok(None) }));
    until("three seconds have their jobs", || async { finished(&rig).await.len() >= 3 }).await;
    let jobs = finished(&rig).await;
    for job in &jobs {
        let late = job.created_at - instant(job);
        assert!(!late.is_negative() && late <= SLACK, "{late} late: {job:?}");
    }
    let report = running.stop().await;
    assert!(report.metrics.schedule_runs >= 3, "{:?}", report.metrics);
    assert_eq!(report.metrics.schedule_errors, 0);
}

/// Rule K1, B44.
async fn two_workers_make_one_job_an_instant(rig: Arc<Rig>) {
    let log = Log::default();
    let other = Rig::beside(&rig).await;
    Schedules::new(rig.backend.clone()).put(&every_second(&rig)).await.unwrap();
    let both =
        [&*rig, &other].map(|rig| Running::start(worker(rig, &log).raw_handler(|_, _| async { Ok(None) })));
    until("four seconds have their jobs", || async { finished(&rig).await.len() >= 4 }).await;
    let mut runs = 0;
    for running in both {
        runs += running.stop().await.metrics.schedule_runs;
    }
    let jobs = finished(&rig).await;
    let instants: BTreeSet<_> = jobs.iter().map(instant).collect();
    assert_eq!(instants.len(), jobs.len(), "an instant has two jobs: {jobs:?}");
    assert!(runs >= jobs.len() as u64, "{runs} runs, {} jobs", jobs.len());
}

/// Rules W2, K3: also where nobody asks for a long time.
async fn a_put_rings_for_a_sleeping_worker(rig: Arc<Rig>) {
    let log = Log::default();
    let running = Running::start(
        worker(&rig, &log).poll(FAR, FAR).tick_every(FAR).raw_handler(|_, _| async { Ok(None) }),
    );
    until("it sleeps", || async { running.handle.is_idle() }).await;
    Schedules::new(rig.backend.clone()).put(&every_second(&rig)).await.unwrap();
    until("it has run", || async { !finished(&rig).await.is_empty() }).await;
    running.stop().await;
}

/// Rule K2, E11: what plain SQL has put is not always one that a calendar can read.
async fn one_schedule_that_cannot_be_fired_stops_no_other(rig: Arc<Rig>) {
    let log = Log::default();
    let bad = Schedule { name: "bad".into(), cron: "every day".into(), ..every_second(&rig) };
    rig.backend.schedule_put(&bad).await.unwrap();
    let nowhere = Schedule { name: "nowhere".into(), zone: "Europe/Atlantis".into(), ..every_second(&rig) };
    rig.backend.schedule_put(&nowhere).await.unwrap();
    Schedules::new(rig.backend.clone()).put(&every_second(&rig)).await.unwrap();
    let running = Running::start(worker(&rig, &log).raw_handler(|_, _| async { Ok(None) }));
    until("the good one runs", || async { finished(&rig).await.len() >= 2 }).await;
    let ticked = Schedules::new(rig.backend.clone()).tick().await.unwrap();
    let refused: BTreeSet<&str> = ticked.refused.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(refused, BTreeSet::from(["bad", "nowhere"]));
    assert!(running.stop().await.metrics.schedule_errors >= 2);
}

/// Rule K4: the rows age while nobody ticks.
async fn missed_instants_are_made_up_for_after_an_outage(rig: Arc<Rig>) {
    let schedules = Schedules::new(rig.backend.clone());
    let hourly = |name: &str, missed| {
        Schedule::new(name, "0 * * * *", &rig.queue, name).payload(r#""{instant}""#).missed(missed)
    };
    for (name, missed) in [("skip", Missed::Skip), ("latest", Missed::Latest), ("three", Missed::All(3))] {
        schedules.put(&hourly(name, missed)).await.unwrap();
    }
    // Until half past some hour, so that none is only just due.
    let table = rig.table("schedule");
    let (now, half) = (time::OffsetDateTime::now_utc(), Duration::from_secs(1800));
    let into_hour = Duration::from_secs(u64::from(now.minute()) * 60 + u64::from(now.second()));
    let by = Duration::from_secs(10 * 3600);
    rig.execute(&format!(
        "UPDATE {table} SET {}, {}",
        rig.earlier("next_at", by + into_hour + half),
        rig.earlier("done_until", by + into_hour + half)
    ))
    .await;
    let ticked = schedules.tick().await.unwrap();
    let just_due = into_hour < Duration::from_secs(65);
    assert_eq!(ticked.moved, 3);
    assert_eq!(ticked.jobs, if just_due { 5 } else { 4 });
    let filter = JobFilter { state: State::Ready, queue: None, kind: None, before: None, limit: 100 };
    let mut jobs = rig.backend.jobs(&filter).await.unwrap().jobs;
    jobs.retain(|job| job.kind == "three");
    let mut instants: Vec<_> = jobs.iter().map(instant).collect();
    instants.reverse();
    assert_eq!(instants.len(), 3);
    assert!(instants.windows(2).all(|pair| pair[1] - pair[0] == time::Duration::HOUR), "{instants:?}");
    assert!(now - instants[2] < time::Duration::HOUR + time::Duration::MINUTE, "{instants:?}");
    let again = schedules.tick().await.unwrap();
    assert_eq!((again.moved, again.jobs), (0, 0), "{again:?}");
    assert!(again.next_in.is_some_and(|next_in| next_in <= Duration::from_secs(3600)));
}

/// Rules K7, E9.
async fn an_expression_that_is_none_is_refused_before_anything_is_written(rig: Arc<Rig>) {
    let schedules = Schedules::new(rig.backend.clone());
    for (cron, zone, word) in [
        ("* * * *", "UTC", "cron"),
        ("every day", "UTC", "cron"),
        ("0 0 30 2 *", "UTC", "never comes"),
        ("* * * * *", "Europe/Atlantis", "time zone"),
    ] {
        let bad = Schedule { cron: cron.into(), zone: zone.into(), ..every_second(&rig) };
        let error = schedules.put(&bad).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains(word), "{error}");
    }
    assert_eq!(rig.backend.schedule_list(None, None, 10).await.unwrap(), vec![]);
}

async fn a_worker_may_leave_schedules_to_others(rig: Arc<Rig>) {
    let log = Log::default();
    Schedules::new(rig.backend.clone()).put(&every_second(&rig)).await.unwrap();
    let running = Running::start(worker(&rig, &log).schedules(false).raw_handler(|_, _| async { Ok(None) }));
    until("it is due", || async { !rig.backend.schedule_due(1).await.unwrap().schedules.is_empty() }).await;
    until("the worker has had time", || async { running.handle.metrics().claims_empty >= 5 }).await;
    assert_eq!(running.stop().await.metrics.schedule_runs, 0);
    assert!(Schedules::new(rig.backend.clone()).tick().await.unwrap().jobs >= 1);
}

async fn a_late_schedule_is_a_metric(rig: Arc<Rig>) {
    let metrics = Metrics::new();
    let late = async || {
        let text = metrics.render(rig.backend.as_ref()).await;
        let line = text.lines().find_map(|line| line.strip_prefix("turno_schedule_late_seconds "));
        line.expect("the gauge is always there").parse::<f64>().expect("a number")
    };
    assert_eq!(late().await, 0.0);
    Schedules::new(rig.backend.clone()).put(&every_second(&rig)).await.unwrap();
    let by = Duration::from_secs(100);
    let (next, done) = (rig.earlier("next_at", by), rig.earlier("done_until", by));
    rig.execute(&format!("UPDATE {} SET {next}, {done}", rig.table("schedule"))).await;
    until("a scrape sees it", || async {
        (98.0..100.0 + SLACK.as_secs_f64() + 30.0).contains(&late().await)
    })
    .await;
    rig.backend.schedule_pause("every second").await.unwrap();
    until("what is paused is not late", || async { late().await == 0.0 }).await;
}
