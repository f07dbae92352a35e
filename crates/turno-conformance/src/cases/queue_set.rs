//! Settings of a queue, and of the installation as defaults.

use std::time::Duration;

use turno_contract::{ErrorKind, JobId, Keep, QueueSettings, Retry, SettingsChange, State, limits};

use crate::Kit;
use crate::kit::{assert_done, refused_as};

super::cases! {
    Nothing: [
        every_setting_comes_back_and_the_others_stay,
        new_jobs_take_the_defaults_of_their_queue,
        a_change_of_aging_puts_waiting_jobs_in_their_new_order,
        settings_outside_their_limits_are_refused,
    ],
    Alone: [the_installations_defaults_hold_for_queues_without_settings],
}

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Rule P6.
async fn every_setting_comes_back_and_the_others_stay(kit: Kit) {
    let change = SettingsChange {
        description: Some("O'Brien's 📨".to_owned()),
        aging: Some(Some(Duration::from_millis(1500))),
        max_attempts: Some(7),
        max_run: Some(Duration::from_millis(70_001)),
        retry_base: Some(Duration::from_millis(2500)),
        retry_cap: Some(Duration::from_secs(99)),
        max_attempts_limit: Some(77),
        max_run_limit: Some(DAY),
        run_at_horizon: Some(Some(30 * DAY)),
        keep_succeeded: Some(Keep::For(Duration::from_secs(5))),
        keep_cancelled: Some(Keep::Forever),
        keep_dead: Some(Keep::For(90 * DAY)),
        receipts: Some(Duration::from_secs(60)),
    };
    let expected = QueueSettings {
        queue: Some(kit.queue().to_owned()),
        description: change.description.clone(),
        paused_at: None,
        aging: change.aging.unwrap(),
        max_attempts: 7,
        max_run: change.max_run.unwrap(),
        retry_base: change.retry_base.unwrap(),
        retry_cap: change.retry_cap.unwrap(),
        max_attempts_limit: 77,
        max_run_limit: DAY,
        run_at_horizon: change.run_at_horizon.unwrap(),
        keep_succeeded: change.keep_succeeded.unwrap(),
        keep_cancelled: Keep::Forever,
        keep_dead: change.keep_dead.unwrap(),
        receipts: change.receipts.unwrap(),
    };
    assert_eq!(kit.set(change).await, expected);
    assert_eq!(kit.set(SettingsChange::default()).await, expected);
    let fewer = SettingsChange { aging: Some(None), run_at_horizon: Some(None), ..Default::default() };
    assert_eq!(kit.set(fewer).await, QueueSettings { aging: None, run_at_horizon: None, ..expected.clone() });
    let other = kit.beside("other");
    assert_ne!(other.set(SettingsChange::default()).await.max_attempts, 7, "another queue has its own");
}

/// Rules P6, F4.
async fn new_jobs_take_the_defaults_of_their_queue(kit: Kit) {
    let before = kit.enqueue_one().await;
    let seconds = Duration::from_secs;
    kit.set(SettingsChange {
        max_attempts: Some(2),
        max_run: Some(seconds(77)),
        retry_base: Some(seconds(1000)),
        retry_cap: Some(seconds(1000)),
        ..Default::default()
    })
    .await;
    let id = kit.enqueue_one().await;
    let own = kit.enqueue_new(kit.new_job().max_attempts(9).max_run(seconds(99))).await;
    let limits = |job: turno_contract::JobRecord| (job.max_attempts, job.max_run);
    assert_eq!(limits(kit.job(id).await), (2, seconds(77)));
    assert_eq!(limits(kit.job(own).await), (9, seconds(99)));
    assert_eq!(
        limits(kit.job(before).await),
        (20, seconds(3600)),
        "what was enqueued keeps what it was given"
    );
    let job = kit.claim_n(2).await.pop().unwrap();
    let settled = kit.fail(job.proof, "no", Retry::Policy).await;
    assert_done(&settled, State::Scheduled);
    assert!(settled.run_at.unwrap() - job.claimed_at >= seconds(750));
}

/// Rules C9, P6.
async fn a_change_of_aging_puts_waiting_jobs_in_their_new_order(kit: Kit) {
    let minute = Duration::from_secs(60);
    let enqueue = |priority: i32| kit.enqueue_new(kit.new_job().priority(priority));
    let (idle, low) = (enqueue(500).await, enqueue(10).await);
    kit.age(20 * minute).await;
    let scheduled = kit.scheduled(10 * minute).await;
    let (fresh, urgent) = (enqueue(0).await, enqueue(-1).await);
    let strict: Vec<JobId> = vec![urgent, fresh, low, idle];
    let aged: Vec<JobId> = vec![low, urgent, fresh, idle];
    for (aging, expected) in [(None, &strict), (Some(minute), &aged), (None, &strict), (Some(minute), &aged)]
    {
        kit.set(SettingsChange { aging: Some(aging), ..Default::default() }).await;
        let jobs = kit.claim_n(10).await;
        assert_eq!(&crate::kit::ids(&jobs), expected, "aging {aging:?}");
        for job in jobs {
            kit.release(job.proof, None).await;
        }
    }
    kit.age(11 * minute).await;
    kit.promote().await;
    assert!(kit.claim_ids(10).await.contains(&scheduled));
}

/// One thing that is wrong with a request.
type Change = fn(&mut SettingsChange);

/// Rules C6, P6, E9. B41: what could overflow later is refused now.
async fn settings_outside_their_limits_are_refused(kit: Kit) {
    let before = kit.set(SettingsChange::default()).await;
    let changes: &[(&str, Change)] = &[
        ("no attempt", |change| change.max_attempts = Some(0)),
        ("too many attempts", |change| change.max_attempts = Some(limits::ATTEMPTS_MAX + 1)),
        ("a limit of no attempt", |change| change.max_attempts_limit = Some(0)),
        ("a limit of too many attempts", |change| change.max_attempts_limit = Some(u32::MAX)),
        ("no time", |change| change.max_run = Some(Duration::ZERO)),
        ("too much time", |change| change.max_run = Some(limits::MAX_RUN_MAX + Duration::from_millis(1))),
        ("a limit of no time", |change| change.max_run_limit = Some(Duration::ZERO)),
        ("a limit of endless time", |change| change.max_run_limit = Some(Duration::MAX)),
        ("endless aging", |change| change.aging = Some(Some(Duration::MAX))),
        ("aging without an interval", |change| change.aging = Some(Some(Duration::ZERO))),
        ("no base", |change| change.retry_base = Some(Duration::ZERO)),
        ("an endless base", |change| change.retry_base = Some(Duration::MAX)),
        ("an endless cap", |change| change.retry_cap = Some(Duration::MAX)),
        ("an endless horizon", |change| change.run_at_horizon = Some(Some(Duration::MAX))),
        ("an endless retention", |change| change.keep_dead = Some(Keep::For(Duration::MAX))),
        ("endless receipts", |change| change.receipts = Some(Duration::MAX)),
    ];
    for (what, change) in changes {
        let mut settings = SettingsChange::default();
        change(&mut settings);
        let answer = kit.backend().queue_set(Some(kit.queue()), &settings).await;
        assert_eq!(answer.map_err(|error| error.kind()), Err(ErrorKind::InvalidArgument), "{what}");
    }
    assert_eq!(kit.set(SettingsChange::default()).await, before);
    refused_as(
        kit.backend().queue_set(Some(""), &SettingsChange::default()).await,
        ErrorKind::InvalidArgument,
    );
}

/// Rules P6, P7, P8.
async fn the_installations_defaults_hold_for_queues_without_settings(kit: Kit) {
    let defaults = kit.backend().queue_set(None, &SettingsChange::default()).await.unwrap();
    assert_eq!(
        (&defaults.queue, defaults.max_attempts, defaults.max_run),
        (&None, 20, Duration::from_secs(3600))
    );
    assert_eq!((defaults.keep_succeeded, defaults.keep_cancelled), (Keep::For(DAY), Keep::For(7 * DAY)));
    assert_eq!((defaults.keep_dead, defaults.receipts), (Keep::For(30 * DAY), Duration::from_secs(3600)));
    assert_eq!((defaults.aging, defaults.paused_at), (None, None));
    let change = SettingsChange { max_attempts: Some(3), max_run: Some(DAY), ..Default::default() };
    kit.backend().queue_set(None, &change).await.unwrap();
    let id = kit.enqueue_one().await;
    let restore = SettingsChange {
        max_attempts: Some(defaults.max_attempts),
        max_run: Some(defaults.max_run),
        ..Default::default()
    };
    let restored = kit.backend().queue_set(None, &restore).await.unwrap();
    let job = kit.job(id).await;
    assert_eq!((job.max_attempts, job.max_run), (3, DAY));
    assert_eq!(restored, defaults);
    assert_eq!(kit.job(kit.enqueue_one().await).await.max_attempts, 20);
}
