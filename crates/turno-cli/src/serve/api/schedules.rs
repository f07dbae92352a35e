//! Schedules over HTTP (rules K2, K8). They are put by the command line and by code, where the calendar is; here they are looked
//! at, paused, resumed and removed.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use turno::{Schedules, check_schedule_name, limits};
use utoipa::{IntoParams, ToSchema};

use super::{Problems, json};
use crate::serve::access::Right;
use crate::serve::caller::Caller;
use crate::serve::extract::{Name, Query};
use crate::serve::problem::Problem;
use crate::serve::state::{ROWS_AT_ONCE, Served, Shared};
use crate::views::Schedule;

/// Which schedules to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SchedulesQuery {
    /// The one of this name.
    #[param(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f]+$")]
    pub name: Option<String>,
    /// Continue behind this name.
    #[param(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f]+$")]
    pub after: Option<String>,
    /// At most this many.
    #[serde(default = "at_once")]
    #[param(minimum = 1, maximum = 100)]
    pub limit: u32,
    /// Show the payloads.
    #[serde(default)]
    pub payload: bool,
}

fn at_once() -> u32 {
    ROWS_AT_ONCE
}

/// A page of schedules.
#[derive(Serialize, ToSchema)]
pub struct SchedulesPage<'a> {
    /// By name.
    schedules: Vec<Schedule<'a>>,
    /// The `after` of the next page, if there may be one.
    next: Option<&'a str>,
}

/// What was done to a schedule.
#[derive(Serialize, ToSchema)]
pub struct ScheduleAnswer {
    /// Its name.
    schedule: String,
    /// `paused`, `resumed` or `removed`.
    answer: &'static str,
}

/// A page of schedules by name. Every role but the producer.
#[utoipa::path(get, path = "/schedules", operation_id = "schedules", tag = "look", params(SchedulesQuery),
    responses((status = 200, description = "The page", body = SchedulesPage), Problems))]
pub async fn schedules(
    State(app): State<Shared>,
    caller: Caller,
    Query(query): Query<SchedulesQuery>,
) -> Result<Response, Problem> {
    caller.need(Right::Schedules)?;
    let max = ROWS_AT_ONCE.min(limits::PAGE_ROWS_MAX);
    if !(1..=max).contains(&query.limit) {
        return Err(Problem::invalid(format!("limit {} is not in 1..={max}", query.limit)));
    }
    for name in [&query.name, &query.after].into_iter().flatten() {
        check_schedule_name(name)?;
    }
    let found = app.reads.schedule_list(query.name.as_deref(), query.after.as_deref(), query.limit);
    let records = app.look(found).await?;
    let last = records.last().filter(|_| query.name.is_none() && records.len() == query.limit as usize);
    let page = SchedulesPage {
        schedules: records.iter().map(|record| Schedule::new(record, query.payload)).collect(),
        next: last.map(|last| last.schedule.name.as_str()),
    };
    json(StatusCode::OK, &page)
}

/// Fire nothing of a schedule until it is resumed. Roles: scheduler, operator.
#[utoipa::path(post, path = "/schedules/{schedule}/pause", operation_id = "schedule_pause", tag = "operate",
    params(("schedule" = String, Path, min_length = 1, max_length = 200)),
    responses((status = 200, description = "It is paused", body = ScheduleAnswer), Problems))]
pub async fn pause(State(app): State<Shared>, caller: Caller, Name(name): Name) -> Result<Response, Problem> {
    caller.need(Right::PauseSchedule)?;
    check_schedule_name(&name)?;
    change(&app, app.backend.schedule_pause(&name)).await?;
    answer(name, "paused")
}

/// End a pause; nothing is fired for its time. Roles: scheduler, operator.
#[utoipa::path(post, path = "/schedules/{schedule}/resume", operation_id = "schedule_resume", tag = "operate",
    params(("schedule" = String, Path, min_length = 1, max_length = 200)),
    responses((status = 200, description = "It is not paused", body = ScheduleAnswer), Problems))]
pub async fn resume(
    State(app): State<Shared>,
    caller: Caller,
    Name(name): Name,
) -> Result<Response, Problem> {
    caller.need(Right::PauseSchedule)?;
    check_schedule_name(&name)?;
    change(&app, Schedules::new(app.backend.clone()).resume(&name)).await?;
    answer(name, "resumed")
}

/// Remove a schedule; its jobs stay. Role: scheduler.
#[utoipa::path(post, path = "/schedules/{schedule}/remove", operation_id = "schedule_remove", tag = "operate",
    params(("schedule" = String, Path, min_length = 1, max_length = 200)),
    responses((status = 200, description = "It is gone", body = ScheduleAnswer), Problems))]
pub async fn remove(
    State(app): State<Shared>,
    caller: Caller,
    Name(name): Name,
) -> Result<Response, Problem> {
    caller.need(Right::RemoveSchedule)?;
    check_schedule_name(&name)?;
    change(&app, app.backend.schedule_remove(&name)).await?;
    answer(name, "removed")
}

/// A change of one schedule, which may not be there.
async fn change(app: &Served, call: impl Future<Output = turno::Result<()>>) -> Result<(), Problem> {
    app.ask_for_job(call).await
}

fn answer(schedule: String, answer: &'static str) -> Result<Response, Problem> {
    json(StatusCode::OK, &ScheduleAnswer { schedule, answer })
}
