//! The schedules with their next instants, and what can be done with one. They are paged by name, and refuse to show payloads.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect};
use serde::Deserialize;
use time::OffsetDateTime;
use turno::calendar::{self, Calendar};
use turno::{ScheduleRecord, Schedules};

use super::actions::{Confirm, Form, Plain};
use super::show::{escaped, instant};
use super::visitor::{Shell, Visitor};
use super::{Answer, render};
use crate::parse;
use crate::serve::access::Right;
use crate::serve::extract::{Name, Query};
use crate::serve::state::Shared;

/// Schedules on a page.
const PAGE_ROWS: u32 = 50;
/// Instants that are shown of each.
const NEXT_SHOWN: usize = 3;
/// From which lateness on it is worth a colour: a worker looks every thirty seconds at least.
const LATE: time::Duration = time::Duration::seconds(60);

/// Where to go on.
#[derive(Debug, Deserialize)]
pub struct Page {
    after: Option<String>,
}

/// A line of the table.
struct ScheduleLine {
    name: String,
    href: String,
    cron: String,
    zone: String,
    queue: String,
    queue_href: String,
    kind: String,
    missed: String,
    paused: bool,
    late: Option<String>,
    next: Vec<String>,
    fault: Option<String>,
    last: Option<(String, String)>,
}

impl ScheduleLine {
    fn new(record: &ScheduleRecord, now: OffsetDateTime) -> Self {
        let schedule = &record.schedule;
        let waiting = record.next_at.filter(|_| record.paused_at.is_none()).map(|next| now - next);
        let late = waiting.filter(|late| *late > LATE).and_then(|late| late.try_into().ok());
        let (next, fault) = match Calendar::new(&schedule.cron, &schedule.zone) {
            Ok(calendar) => (next_instants(&calendar, now, &schedule.zone), None),
            Err(error) => (Vec::new(), Some(error.message().to_owned())),
        };
        ScheduleLine {
            name: schedule.name.clone(),
            href: format!("/schedules/{}", escaped(&schedule.name)),
            cron: schedule.cron.clone(),
            zone: schedule.zone.clone(),
            queue: schedule.queue.clone(),
            queue_href: format!("/queues/{}", escaped(&schedule.queue)),
            kind: schedule.kind.clone(),
            missed: schedule.missed.to_string(),
            paused: record.paused_at.is_some(),
            late: late.map(parse::show),
            next,
            fault,
            last: record.last_job.zip(record.last_at).map(|(job, at)| (job.to_string(), instant(at))),
        }
    }
}

fn next_instants(calendar: &Calendar, now: OffsetDateTime, zone: &str) -> Vec<String> {
    let instants = std::iter::successors(calendar.next_after(now), |at| calendar.next_after(*at));
    let shown = instants.take(NEXT_SHOWN);
    shown.map(|at| calendar::show_in(at, zone).unwrap_or_else(|_| parse::show_instant(at))).collect()
}

#[derive(Template)]
#[template(path = "schedules.html")]
struct SchedulesPage {
    shell: Option<Shell>,
    schedules: Vec<ScheduleLine>,
    may_pause: bool,
    may_remove: bool,
    next_href: Option<String>,
}

/// The schedules by name.
pub async fn list(State(app): State<Shared>, visitor: Visitor, Query(from): Query<Page>) -> Answer {
    visitor.need(Right::Schedules)?;
    let now = app.look(app.reads.schedule_due(1)).await?.now;
    let records = app.look(app.reads.schedule_list(None, from.after.as_deref(), PAGE_ROWS)).await?;
    let next = records.last().filter(|_| records.len() == PAGE_ROWS as usize);
    Ok(render(&SchedulesPage {
        shell: visitor.shell("schedules", from.after.is_none()),
        schedules: records.iter().map(|record| ScheduleLine::new(record, now)).collect(),
        may_pause: visitor.may(Right::PauseSchedule),
        may_remove: visitor.may(Right::RemoveSchedule),
        next_href: next.map(|last| format!("/schedules?after={}", escaped(&last.schedule.name))),
    }))
}

fn confirm(visitor: &Visitor, name: &str, what: &str, verb: &str, explanation: &str) -> Answer {
    Ok(render(&Confirm {
        shell: visitor.shell("schedules", false),
        question: format!("{verb} the schedule {name}?"),
        explanation: explanation.to_owned(),
        action: format!("/schedules/{}/{what}", escaped(name)),
        verb: verb.to_owned(),
        back: "/schedules".into(),
        form_token: visitor.form_token(),
        ..Confirm::default()
    }))
}

/// Makes a change that a form has confirmed, and goes back to the list.
async fn change(
    app: &Shared,
    visitor: &Visitor,
    form: &Plain,
    right: Right,
    change: impl Future<Output = turno::Result<()>>,
) -> Answer {
    visitor.need(right)?;
    visitor.check_form(&form.form_token)?;
    app.ask_for_job(change).await?;
    Ok(Redirect::to("/schedules").into_response())
}

/// Asks whether to pause.
pub async fn ask_pause(visitor: Visitor, Name(name): Name) -> Answer {
    visitor.need(Right::PauseSchedule)?;
    confirm(&visitor, &name, "pause", "Pause", "Nothing of it is fired until it is resumed. Its jobs stay.")
}

/// Pauses.
pub async fn pause(
    State(app): State<Shared>,
    visitor: Visitor,
    Name(name): Name,
    Form(form): Form<Plain>,
) -> Answer {
    change(&app, &visitor, &form, Right::PauseSchedule, app.backend.schedule_pause(&name)).await
}

/// Asks whether to resume.
pub async fn ask_resume(visitor: Visitor, Name(name): Name) -> Answer {
    visitor.need(Right::PauseSchedule)?;
    confirm(
        &visitor,
        &name,
        "resume",
        "Resume",
        "It counts from now: nothing is fired for the time of the pause.",
    )
}

/// Resumes.
pub async fn resume(
    State(app): State<Shared>,
    visitor: Visitor,
    Name(name): Name,
    Form(form): Form<Plain>,
) -> Answer {
    change(&app, &visitor, &form, Right::PauseSchedule, Schedules::new(app.backend.clone()).resume(&name))
        .await
}

/// Asks whether to remove.
pub async fn ask_remove(visitor: Visitor, Name(name): Name) -> Answer {
    visitor.need(Right::RemoveSchedule)?;
    confirm(&visitor, &name, "remove", "Remove", "Its jobs stay. There is no way back but to add it anew.")
}

/// Removes.
pub async fn remove(
    State(app): State<Shared>,
    visitor: Visitor,
    Name(name): Name,
    Form(form): Form<Plain>,
) -> Answer {
    change(&app, &visitor, &form, Right::RemoveSchedule, app.backend.schedule_remove(&name)).await
}
