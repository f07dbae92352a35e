//! Migrate, and the texts of the operations.

use turno_contract::MigrateReport;

use crate::Kit;

super::cases! {
    Nothing: [a_migrated_schema_has_nothing_to_do, every_operation_has_its_text],
}

/// The operations of the contract: one routine, or one file of statements, each.
const OPERATIONS: &[&str] = &[
    "enqueue",
    "claim",
    "held",
    "heartbeat",
    "complete",
    "fail",
    "release",
    "refused_record",
    "reap",
    "promote",
    "cancel",
    "retry",
    "reprioritize",
    "pause",
    "resume",
    "queue_set",
    "queue_list",
    "prune",
    "forget",
    "stats",
    "audit",
    "job",
    "jobs",
    "attempts",
    "refused",
    "wait",
];

/// Rule V3: what is there is what this binary brought.
async fn a_migrated_schema_has_nothing_to_do(kit: Kit) {
    let id = kit.enqueue_one().await;
    let checked = kit.backend().migrate(true).await.unwrap();
    let MigrateReport { version_before, version, applied, operations } =
        kit.backend().migrate(false).await.unwrap();
    assert_eq!((version_before, applied, operations), (Some(version), vec![], vec![]));
    assert_eq!((checked.version_before, checked.version), (Some(version), version));
    assert_eq!((checked.applied, checked.operations), (vec![], vec![]));
    assert_eq!(kit.claim_ids(10).await, vec![id]);
}

/// Rules C1, S1: the state machine is readable where it runs.
async fn every_operation_has_its_text(kit: Kit) {
    let names = kit.backend().operations();
    for operation in OPERATIONS {
        assert!(names.contains(operation), "{operation} is missing");
    }
    for name in names {
        assert!(kit.backend().sql(name).is_some_and(|text| text.len() > 20), "{name} has no text");
    }
    assert_eq!(kit.backend().sql("no_such_operation"), None);
    let script = kit.backend().script();
    assert!(
        ["job", "finished_job", "attempt", "enqueue_key", "refused"]
            .iter()
            .all(|table| script.contains(table))
    );
}
