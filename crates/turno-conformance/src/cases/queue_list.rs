//! The list of queues.

use turno_contract::{QueueSettings, SettingsChange};

use crate::Kit;

super::cases! {
    Nothing: [
        the_defaults_come_first_and_then_queues_by_name,
        a_paused_queue_says_since_when,
    ],
}

/// Rule P6.
async fn the_defaults_come_first_and_then_queues_by_name(kit: Kit) {
    let (b, a, upper) = (kit.beside("b"), kit.beside("a"), kit.beside("B"));
    b.set(SettingsChange { max_attempts: Some(3), ..Default::default() }).await;
    a.enqueue_one().await;
    upper.enqueue_one().await;
    let queues = kit.backend().queue_list().await.unwrap();
    assert_eq!(queues[0].queue, None);
    let names: Vec<&str> = queues[1..].iter().map(|queue| queue.queue.as_deref().expect("a name")).collect();
    assert!(names.windows(2).all(|pair| pair[0].as_bytes() < pair[1].as_bytes()), "{names:?}");
    let own: Vec<&QueueSettings> = queues
        .iter()
        .filter(|queue| queue.queue.as_ref().is_some_and(|name| name.starts_with(kit.queue())))
        .collect();
    assert_eq!(own.len(), 3);
    assert_eq!(
        [&own[0].queue, &own[1].queue, &own[2].queue].map(|name| name.as_deref().unwrap()),
        [upper.queue(), a.queue(), b.queue()]
    );
    assert_eq!(own[2].max_attempts, 3);
    assert_eq!(own[1].max_attempts, queues[0].max_attempts, "without settings the defaults hold");
}

/// Rules P5, P6.
async fn a_paused_queue_says_since_when(kit: Kit) {
    let find = || {
        let kit = kit.clone();
        async move {
            let queues = kit.backend().queue_list().await.unwrap();
            queues.into_iter().find(|queue| queue.queue.as_deref() == Some(kit.queue()))
        }
    };
    assert_eq!(find().await, None);
    let before = kit.now().await;
    kit.backend().pause(kit.queue()).await.unwrap();
    let paused_at = find().await.expect("a paused queue has settings").paused_at.expect("paused");
    assert!(paused_at >= before && paused_at <= kit.now().await);
    kit.backend().resume(kit.queue()).await.unwrap();
    kit.enqueue_one().await;
    assert_eq!(find().await.expect("a queue with jobs").paused_at, None);
}
