//! What is due: by the database's clock alone.

use std::time::Duration;

use super::{HOUR, MINUTE, created, due, fired, firing, record, schedule};
use crate::Kit;

super::super::cases! {
    Nothing: [a_schedule_is_due_once_its_instant_has_come, a_schedule_without_a_further_instant_is_never_due],
    Alone: [the_next_instant_is_told_in_advance, what_is_due_for_longest_comes_first],
}

/// Rule K2.
async fn a_schedule_is_due_once_its_instant_has_come(kit: Kit) {
    let seen = created(&kit, &schedule(&kit), HOUR).await;
    fired(&kit, &firing(&kit, &seen, &[]).await).await;
    assert_eq!(due(&kit, kit.queue()).await.0, None);
    kit.age(HOUR - MINUTE).await;
    assert_eq!(due(&kit, kit.queue()).await.0, None);
    kit.age(MINUTE).await;
    let (found, now) = due(&kit, kit.queue()).await;
    let found = found.expect("due");
    assert!(found.next_at <= now);
    assert_eq!(Some(found.next_at), record(&kit, kit.queue()).await.next_at);
}

/// Rule K2.
async fn a_schedule_without_a_further_instant_is_never_due(kit: Kit) {
    let seen = created(&kit, &schedule(&kit), HOUR).await;
    let mut last = firing(&kit, &seen, &[60]).await;
    last.next_at = None;
    assert_eq!(fired(&kit, &last).await, 1);
    kit.age(Duration::from_secs(365 * 24 * 3600)).await;
    assert_eq!(due(&kit, kit.queue()).await.0, None);
    assert_eq!(record(&kit, kit.queue()).await.next_at, None);
}

/// Rule K2: so that a worker wakes in time.
async fn the_next_instant_is_told_in_advance(kit: Kit) {
    let seen = created(&kit, &schedule(&kit), HOUR).await;
    let mut soon = firing(&kit, &seen, &[]).await;
    soon.next_at = Some(soon.until + MINUTE / 2);
    fired(&kit, &soon).await;
    let next_in = kit.backend().schedule_due(1).await.unwrap().next_in.expect("a next instant");
    assert!(next_in <= MINUTE / 2, "{next_in:?}");
    kit.backend().schedule_pause(kit.queue()).await.unwrap();
    let next_in = kit.backend().schedule_due(1).await.unwrap().next_in;
    assert!(
        next_in.is_none_or(|next_in| next_in > MINUTE / 2),
        "a paused schedule has no next instant: {next_in:?}"
    );
}

/// Rule K2.
async fn what_is_due_for_longest_comes_first(kit: Kit) {
    let (older, newer) = (kit.beside("older"), kit.beside("newer"));
    created(&newer, &schedule(&newer), Duration::from_secs(3650 * 24 * 3600)).await;
    created(&older, &schedule(&older), Duration::from_secs(3651 * 24 * 3600)).await;
    let due = kit.backend().schedule_due(1).await.unwrap();
    assert_eq!(due.schedules.len(), 1, "no more than asked for");
    assert_eq!(due.schedules[0].name, older.queue());
    older.backend().schedule_remove(older.queue()).await.unwrap();
    newer.backend().schedule_remove(newer.queue()).await.unwrap();
}
