//! Putting, listing, pausing and removing schedules.

use turno_contract::{ErrorKind, Fired, Missed, PutAnswer, Schedule, SettingsChange};

use super::{HOUR, MINUTE, created, due, fired, firing, record, schedule};
use crate::Kit;
use crate::kit::{KIND, assert_near, refused_as};

super::super::cases! {
    Nothing: [
        a_new_schedule_counts_from_now_and_is_due_for_a_calendar,
        the_same_again_moves_nothing,
        another_expression_or_zone_counts_from_now,
        any_other_change_keeps_the_next_instant,
        texts_come_back_as_the_same_bytes,
        what_is_beyond_a_limit_is_refused,
        what_the_queue_would_refuse_is_refused_at_once,
        pages_go_by_name,
        what_is_not_there_is_not_found,
        pausing_twice_keeps_the_first_instant,
        a_resumed_schedule_counts_from_now,
    ],
}

/// Rules K3, K7.
async fn a_new_schedule_counts_from_now_and_is_due_for_a_calendar(kit: Kit) {
    let wanted = schedule(&kit).zone("Asia/Kathmandu").missed(Missed::All(5));
    let before = kit.now().await;
    let seen = created(&kit, &wanted, std::time::Duration::ZERO).await;
    assert_eq!((&seen.schedule, seen.revision, seen.paused_at), (&wanted, 1, None));
    assert_eq!((seen.next_at, seen.last_at, seen.last_job), (Some(seen.done_until), None, None));
    assert!(seen.done_until >= before, "{} is before {before}", seen.done_until);
    assert_near(seen.done_until, before, MINUTE);
    let (due, now) = due(&kit, kit.queue()).await;
    let due = due.expect("due for a calendar");
    assert_eq!((due.revision, due.done_until, due.next_at), (1, seen.done_until, seen.done_until));
    assert_eq!((due.cron, due.zone, due.missed), (wanted.cron, wanted.zone, wanted.missed));
    assert!(now >= seen.done_until);
}

/// Rule K3: a deployment that repeats what it puts delays nothing.
async fn the_same_again_moves_nothing(kit: Kit) {
    let mut wanted = schedule(&kit);
    wanted.max_attempts = Some(3);
    wanted.max_run = Some(MINUTE);
    wanted.unique_key = Some("one".into());
    let seen = created(&kit, &wanted, HOUR).await;
    fired(&kit, &firing(&kit, &seen, &[60]).await).await;
    let seen = record(&kit, kit.queue()).await;
    assert_eq!(kit.backend().schedule_put(&wanted).await.unwrap(), PutAnswer::Unchanged);
    assert_eq!(record(&kit, kit.queue()).await, seen);
}

/// Rule K3.
async fn another_expression_or_zone_counts_from_now(kit: Kit) {
    let wanted = schedule(&kit);
    let mut seen = created(&kit, &wanted, HOUR).await;
    for wanted in
        [Schedule { cron: "0 * * * *".into(), ..wanted.clone() }, wanted.clone().zone("Europe/Berlin")]
    {
        let now = kit.now().await;
        assert_eq!(kit.backend().schedule_put(&wanted).await.unwrap(), PutAnswer::Changed);
        let after = record(&kit, kit.queue()).await;
        assert_eq!((&after.schedule, after.revision), (&wanted, seen.revision + 1));
        assert!(after.done_until >= now && after.next_at == Some(after.done_until), "{after:?}");
        assert!(after.created_at < now && after.updated_at >= now, "{after:?}");
        seen = after;
    }
}

/// Rule K3.
async fn any_other_change_keeps_the_next_instant(kit: Kit) {
    let wanted = schedule(&kit);
    let mut seen = created(&kit, &wanted, HOUR).await;
    fired(&kit, &firing(&kit, &seen, &[60]).await).await;
    seen = record(&kit, kit.queue()).await;
    let changes = [
        Schedule { payload: "1".into(), ..wanted.clone() },
        Schedule { kind: "other".into(), ..wanted.clone() },
        Schedule { priority: -3, ..wanted.clone() },
        Schedule { max_attempts: Some(2), ..wanted.clone() },
        Schedule { max_run: Some(HOUR), ..wanted.clone() },
        Schedule { unique_key: Some("one".into()), ..wanted.clone() },
        Schedule { missed: Missed::Skip, ..wanted.clone() },
        Schedule { missed: Missed::All(2), ..wanted.clone() },
        Schedule { missed: Missed::All(3), ..wanted.clone() },
    ];
    for wanted in changes {
        assert_eq!(kit.backend().schedule_put(&wanted).await.unwrap(), PutAnswer::Changed, "{wanted:?}");
        let after = record(&kit, kit.queue()).await;
        assert_eq!((&after.schedule, after.revision), (&wanted, seen.revision + 1));
        assert_eq!((after.done_until, after.next_at), (seen.done_until, seen.next_at));
        assert_eq!((after.last_at, after.last_job), (seen.last_at, seen.last_job));
        seen = after;
    }
}

/// Rules E8, K6.
async fn texts_come_back_as_the_same_bytes(kit: Kit) {
    for name in ["a", "a ", "A", "é", "e\u{301}", "😀 'x' \"y\" \\ %s ?"] {
        let mut wanted = schedule(&kit).payload(json_text(name));
        wanted.name = format!("{}/{name}", kit.queue());
        wanted.kind = name.to_owned();
        wanted.unique_key = Some(name.to_owned());
        let seen = created(&kit, &wanted, std::time::Duration::ZERO).await;
        assert_eq!(seen.schedule, wanted);
    }
}

/// A JSON text with spaces, a repeated key, and what other engines would change.
fn json_text(name: &str) -> String {
    let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
    format!(r#" {{"b": 1.0, "a": 9007199254740993, "b": "\u0000 {quoted}" }}"#)
}

/// Rule E9.
async fn what_is_beyond_a_limit_is_refused(kit: Kit) {
    let good = schedule(&kit);
    let bad = [
        Schedule { name: "x".repeat(201), ..good.clone() },
        Schedule { name: "a\nb".into(), ..good.clone() },
        Schedule { cron: "x".repeat(201), ..good.clone() },
        Schedule { zone: "x".repeat(101), ..good.clone() },
        Schedule { queue: String::new(), ..good.clone() },
        Schedule { payload: "{".into(), ..good.clone() },
        Schedule { payload: format!("\"{}\"", "x".repeat(1 << 16)), ..good.clone() },
        Schedule { priority: 1001, ..good.clone() },
        Schedule { missed: Missed::All(0), ..good.clone() },
        Schedule { missed: Missed::All(101), ..good.clone() },
    ];
    for wanted in bad {
        refused_as(kit.backend().schedule_put(&wanted).await, ErrorKind::InvalidArgument);
    }
    assert_eq!(kit.count("schedule", "1 = 1").await, 0);
    for limit in [0, 1001] {
        refused_as(kit.backend().schedule_due(limit).await, ErrorKind::InvalidArgument);
        refused_as(kit.backend().schedule_list(None, None, limit).await, ErrorKind::InvalidArgument);
    }
}

/// Rule E11.
async fn what_the_queue_would_refuse_is_refused_at_once(kit: Kit) {
    let limited = SettingsChange {
        max_attempts: Some(2),
        max_attempts_limit: Some(2),
        max_run: Some(MINUTE),
        max_run_limit: Some(MINUTE),
        ..Default::default()
    };
    kit.set(limited).await;
    let good = Schedule { max_attempts: Some(2), max_run: Some(MINUTE), ..schedule(&kit) };
    for wanted in [
        Schedule { max_attempts: Some(3), ..good.clone() },
        Schedule { max_run: Some(2 * MINUTE), ..good.clone() },
    ] {
        refused_as(kit.backend().schedule_put(&wanted).await, ErrorKind::InvalidArgument);
    }
    assert_eq!(kit.backend().schedule_put(&good).await.unwrap(), PutAnswer::Created);
}

/// Rule V2.
async fn pages_go_by_name(kit: Kit) {
    let prefix = format!("{}/", kit.queue());
    for name in ["c", "a", "b"] {
        let wanted = Schedule { name: format!("{prefix}{name}"), ..schedule(&kit) };
        kit.backend().schedule_put(&wanted).await.unwrap();
    }
    let (mut after, mut seen) = (prefix.clone(), Vec::new());
    for _ in 0..3 {
        let page = kit.backend().schedule_list(None, Some(&after), 1).await.unwrap();
        after = page[0].schedule.name.clone();
        seen.push(after.clone());
    }
    assert_eq!(seen, ["a", "b", "c"].map(|name| format!("{prefix}{name}")));
    let all = kit.backend().schedule_list(None, None, 1000).await.unwrap();
    assert!(all.is_sorted_by(|a, b| a.schedule.name < b.schedule.name));
}

/// Rule K8.
async fn what_is_not_there_is_not_found(kit: Kit) {
    let name = kit.queue();
    refused_as(kit.backend().schedule_pause(name).await, ErrorKind::NotFound);
    refused_as(kit.backend().schedule_resume(name).await, ErrorKind::NotFound);
    refused_as(kit.backend().schedule_remove(name).await, ErrorKind::NotFound);
    assert_eq!(kit.backend().schedule_list(Some(name), None, 10).await.unwrap(), vec![]);
    created(&kit, &schedule(&kit), HOUR).await;
    kit.backend().schedule_remove(name).await.unwrap();
    refused_as(kit.backend().schedule_remove(name).await, ErrorKind::NotFound);
    assert_eq!(due(&kit, name).await.0, None);
}

/// Rule K8.
async fn pausing_twice_keeps_the_first_instant(kit: Kit) {
    created(&kit, &schedule(&kit), HOUR).await;
    kit.backend().schedule_pause(kit.queue()).await.unwrap();
    let paused = record(&kit, kit.queue()).await;
    assert_eq!(paused.revision, 2);
    assert!(paused.paused_at.is_some());
    kit.now().await;
    kit.backend().schedule_pause(kit.queue()).await.unwrap();
    assert_eq!(record(&kit, kit.queue()).await, paused);
    // A change of what is paused leaves it paused.
    let other = Schedule { kind: format!("{KIND}-2"), ..schedule(&kit) };
    assert_eq!(kit.backend().schedule_put(&other).await.unwrap(), PutAnswer::Changed);
    assert_eq!(record(&kit, kit.queue()).await.paused_at, paused.paused_at);
}

/// Rule K8: nothing is fired for the time of the pause.
async fn a_resumed_schedule_counts_from_now(kit: Kit) {
    let seen = created(&kit, &schedule(&kit), HOUR).await;
    kit.backend().schedule_pause(kit.queue()).await.unwrap();
    assert_eq!(due(&kit, kit.queue()).await.0, None, "a paused schedule is not due");
    let paused = record(&kit, kit.queue()).await;
    for revision in [seen.revision, paused.revision] {
        let firing = turno_contract::Firing { revision, ..firing(&kit, &seen, &[60]).await };
        assert_eq!(kit.backend().schedule_fire(&firing).await.unwrap(), Fired::Already);
    }
    kit.age(HOUR).await;
    let now = kit.now().await;
    kit.backend().schedule_resume(kit.queue()).await.unwrap();
    let resumed = record(&kit, kit.queue()).await;
    assert_eq!((resumed.paused_at, resumed.revision), (None, paused.revision + 1));
    assert!(resumed.done_until >= now && resumed.next_at == Some(resumed.done_until), "{resumed:?}");
    kit.backend().schedule_resume(kit.queue()).await.unwrap();
    assert_eq!(record(&kit, kit.queue()).await, resumed, "what is not paused is not touched");
    assert_eq!(kit.count("job", "1 = 1").await, 0);
}
