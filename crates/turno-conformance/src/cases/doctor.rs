//! Doctor: a healthy installation is called healthy, and what the rows say is said.

use std::time::Duration;

use turno_contract::NewJob;
use turno_contract::doctor::{CHECKS, Check, CheckStatus, DoctorOptions, in_order};

use crate::Kit;
use crate::kit::PATIENCE;

super::cases! {
    Alone: [
        a_healthy_installation_is_well,
        a_queue_that_nobody_serves_is_critical,
        a_queue_that_is_paused_for_long_is_a_warning,
        a_kind_that_nobody_handles_is_named,
        a_row_out_of_reach_is_critical,
    ],
}

/// Longer ago than any other case ages its rows: what waited longest is named first.
const LONG_AGO: Duration = Duration::from_secs(3000 * 86_400);

async fn doctor(kit: &Kit) -> Vec<Check> {
    // The suite leaves many rows, and machines that run it are busy.
    let options = DoctorOptions { long_pause: Duration::ZERO, look_max: PATIENCE, ..Default::default() };
    kit.backend().doctor(&options).await
}

async fn status(kit: &Kit, id: &str) -> (CheckStatus, String) {
    let checks = doctor(kit).await;
    let check = checks.into_iter().find(|check| check.id == id).unwrap_or_else(|| panic!("no check {id}"));
    (check.status, check.found)
}

/// Rule V5. What other cases, other databases and the machine do meanwhile is not the installation's; nor is it whether autovacuum has
/// come to what those cases have written ("statistics", "vacuum").
async fn a_healthy_installation_is_well(kit: Kit) {
    let ours = [
        "server",
        "schema",
        "drift",
        "indexes",
        "grants",
        "login",
        "definer",
        "isolation",
        "packet",
        "sql_mode",
        "snapshot",
        "journal",
        "file_system",
        "locks",
        "audit",
    ];
    let checks = doctor(&kit).await;
    for check in &checks {
        assert!(CHECKS.iter().any(|(id, _)| *id == check.id), "{check:?}");
        assert!(!check.meaning.is_empty() && !check.found.is_empty(), "{check:?}");
        assert_eq!(check.action.is_none(), check.status == CheckStatus::Ok, "{check:?}");
        assert!(!ours.contains(&check.id) || check.status == CheckStatus::Ok, "{check:?}");
    }
    for id in ["server", "schema", "drift", "indexes", "workers", "leases", "kinds", "paused", "audit"] {
        assert_eq!(checks.iter().filter(|check| check.id == id).count(), 1, "{id}");
    }
    assert_eq!(checks, in_order(checks.clone()));
}

/// Rule V5.
async fn a_queue_that_nobody_serves_is_critical(kit: Kit) {
    kit.reap_all().await;
    let id = kit.enqueue_one().await;
    kit.age(LONG_AGO).await;
    let (status_now, found) = status(&kit, "workers").await;
    assert!(status_now == CheckStatus::Critical && found.contains(kit.queue()), "{found}");
    kit.claim_one().await;
    let (_, found) = status(&kit, "workers").await;
    assert!(!found.contains(kit.queue()), "{found}");
    kit.expire().await;
    let (status_now, found) = status(&kit, "leases").await;
    assert!(status_now == CheckStatus::Warning && found.contains(kit.queue()), "{found}");
    kit.backend().cancel(id, true).await.unwrap();
    assert!(!status(&kit, "leases").await.1.contains(kit.queue()));
}

/// Rule V5.
async fn a_queue_that_is_paused_for_long_is_a_warning(kit: Kit) {
    let id = kit.enqueue_one().await;
    kit.backend().pause(kit.queue()).await.unwrap();
    let (status_now, found) = status(&kit, "paused").await;
    assert!(status_now == CheckStatus::Warning && found.contains(kit.queue()), "{found}");
    let check = kit.backend().doctor(&DoctorOptions::default()).await;
    let check = check.into_iter().find(|check| check.id == "paused").unwrap();
    assert_eq!(check.status, CheckStatus::Ok, "not for long yet: {}", check.found);
    kit.backend().resume(kit.queue()).await.unwrap();
    assert!(!status(&kit, "paused").await.1.contains(kit.queue()));
    kit.backend().cancel(id, false).await.unwrap();
}

/// Rules V4, V5.
async fn a_kind_that_nobody_handles_is_named(kit: Kit) {
    let id = kit.enqueue_new(NewJob { kind: "unknown-here".into(), ..kit.new_job() }).await;
    for _ in 0..3 {
        let job = kit.claim_one().await;
        kit.release(job.proof, Some(Duration::from_secs(60))).await;
        kit.age(Duration::from_secs(61)).await;
    }
    let (status_now, found) = status(&kit, "kinds").await;
    assert!(status_now == CheckStatus::Warning && found.contains("unknown-here"), "{found}");
    kit.backend().cancel(id, false).await.unwrap();
}

/// Rules V3, V5.
async fn a_row_out_of_reach_is_critical(kit: Kit) {
    let id = kit.enqueue_one().await;
    let rank = kit.rig().column("rank");
    kit.update_job(id, &format!("{rank} = {rank} + 1000000")).await.unwrap();
    let (status_now, found) = status(&kit, "audit").await;
    assert!(status_now == CheckStatus::Critical && found.contains(&format!("job {id}")), "{found}");
    kit.update_job(id, &format!("{rank} = {rank} - 1000000")).await.unwrap();
}
