//! Schedules: what recurs, what is due, and one job for each instant. Each case names its schedule like its queue.

mod due;
mod fire;
mod put;

use std::time::Duration;

use time::OffsetDateTime;
use turno_contract::{DueSchedule, Fired, Firing, PutAnswer, Schedule, ScheduleRecord};

use crate::Kit;
use crate::kit::KIND;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// All cases of these operations.
pub(super) fn all() -> Vec<crate::Case> {
    [put::cases(), due::cases(), fire::cases()].into_iter().flatten().collect()
}

/// This case's schedule, every minute.
fn schedule(kit: &Kit) -> Schedule {
    Schedule::new(kit.queue(), "* * * * *", kit.queue(), KIND)
}

/// Puts a schedule that was not there, as if it had been there for this long; answers it.
async fn created(kit: &Kit, schedule: &Schedule, ago: Duration) -> ScheduleRecord {
    let answer = kit.backend().schedule_put(schedule).await.expect("schedule_put");
    assert_eq!(answer, PutAnswer::Created);
    kit.age(ago).await;
    record(kit, &schedule.name).await
}

/// The schedule of this name, which must be there.
async fn record(kit: &Kit, name: &str) -> ScheduleRecord {
    let found = kit.backend().schedule_list(Some(name), None, 10).await.expect("schedule_list");
    assert_eq!(found.len(), 1, "{name}");
    found.into_iter().next().expect("one")
}

/// The schedule of this name, if it is due, and the database's now.
async fn due(kit: &Kit, name: &str) -> (Option<DueSchedule>, OffsetDateTime) {
    let due = kit.backend().schedule_due(1000).await.expect("schedule_due");
    (due.schedules.into_iter().find(|due| due.name == name), due.now)
}

/// A firing of these instants, seconds after `done_until`, as if a calendar had said so; the next instant is in an hour.
async fn firing(kit: &Kit, seen: &ScheduleRecord, seconds: &[u64]) -> Firing {
    let (_, now) = due(kit, &seen.schedule.name).await;
    let at = |seconds: &u64| seen.done_until + Duration::from_secs(*seconds);
    Firing {
        name: seen.schedule.name.clone(),
        revision: seen.revision,
        until: now,
        instants: seconds.iter().map(at).collect(),
        next_at: Some(now + HOUR),
    }
}

/// How many jobs an accepted firing made.
async fn fired(kit: &Kit, firing: &Firing) -> usize {
    match kit.backend().schedule_fire(firing).await.expect("schedule_fire") {
        Fired::Done(jobs) => jobs.len(),
        Fired::Already => panic!("not fired: {firing:?}"),
    }
}
