//! Schedules over HTTP (rules K2, K3, K8). Nothing here fires them: that is what workers do.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use turno::{Missed, PutAnswer, Schedules, check_schedule_name, limits};
use utoipa::{IntoParams, ToSchema};

use super::{BodyProblems, Problems, json};
use crate::serve::access::Right;
use crate::serve::caller::Caller;
use crate::serve::extract::{Body, Name, Query};
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

/// A schedule: when, and the job that each instant becomes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleBody {
    /// Minute, hour, day of month, month, day of week; or six fields with seconds first.
    #[schema(min_length = 1, max_length = 200, example = "30 2 * * MON-FRI")]
    cron: String,
    /// The time zone whose wall clock the expression is about, by its IANA name.
    #[serde(default = "utc")]
    #[schema(max_length = 100, example = "Europe/Berlin")]
    zone: String,
    /// The queue of its jobs.
    #[schema(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f]+$", example = "reports")]
    queue: String,
    /// The kind of its jobs.
    #[schema(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f]+$", example = "nightly")]
    kind: String,
    /// Their payload; each `{instant}` in it becomes the run's instant. `null` if it is left out.
    #[serde(default)]
    #[schema(value_type = serde_json::Value, required = false, example = json!({"day": "{instant}"}))]
    payload: Option<Box<RawValue>>,
    /// What becomes of instants that nobody fired in time: `skip`, `latest`, or `all:N` for the newest N.
    #[serde(default = "latest")]
    #[schema(pattern = "^(skip|latest|all:[1-9][0-9]?|all:100)$")]
    missed: String,
    /// Lower is more urgent.
    #[serde(default)]
    #[schema(minimum = -1000, maximum = 1000)]
    priority: i32,
    /// The failure budget; the queue's default if it is left out.
    #[schema(minimum = 1, maximum = 1_000_000)]
    max_attempts: Option<u32>,
    /// Time of one attempt; the queue's default if it is left out.
    #[schema(minimum = 1, maximum = 31_536_000_000_u64)]
    max_run_ms: Option<u64>,
    /// At most one of its jobs is unfinished: an instant that comes meanwhile makes none.
    #[schema(min_length = 1, max_length = 512)]
    unique_key: Option<String>,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn latest() -> String {
    "latest".to_owned()
}

impl ScheduleBody {
    fn named(self, name: String) -> Result<turno::Schedule, Problem> {
        Ok(turno::Schedule {
            name,
            cron: self.cron,
            zone: self.zone,
            queue: self.queue,
            kind: self.kind,
            payload: self.payload.as_deref().map_or("null", RawValue::get).to_owned(),
            priority: self.priority,
            max_attempts: self.max_attempts,
            max_run: self.max_run_ms.map(Duration::from_millis),
            unique_key: self.unique_key,
            missed: self
                .missed
                .parse::<Missed>()
                .map_err(|why| Problem::invalid(format!("missed: {why}")))?,
        })
    }
}

/// What became of it.
#[derive(Serialize, ToSchema)]
pub struct SchedulePut<'a> {
    /// `created`, `changed` or `unchanged`.
    #[schema(value_type = String, pattern = "^(created|changed|unchanged)$")]
    answer: PutAnswer,
    /// As it is now.
    schedule: Schedule<'a>,
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

/// Create a schedule, or replace what it says. Role: scheduler.
///
/// The same again changes nothing, so that a deployment may repeat it, and so may whoever did not get the answer. Another expression or zone counts
/// from now; any other change keeps the next instant.
#[utoipa::path(put, path = "/schedules/{schedule}", operation_id = "schedule_put", tag = "operate",
    params(("schedule" = String, Path, min_length = 1, max_length = 200)), request_body = ScheduleBody,
    responses((status = 200, description = "It was there: changed or unchanged", body = SchedulePut),
        (status = 201, description = "It was created", body = SchedulePut),
        (status = 204, description = "It was done; somebody has removed it meanwhile, or it cannot be read now"),
        Problems, BodyProblems))]
pub async fn put(
    State(app): State<Shared>,
    caller: Caller,
    Name(name): Name,
    body: Body,
) -> Result<Response, Problem> {
    caller.need(Right::PutSchedule)?;
    let (body, _turn) = body.json::<ScheduleBody>(&app).await?;
    let schedule = body.named(name)?;
    let done = app.ask(Schedules::new(app.backend.clone()).put(&schedule)).await?;
    let status = if done == PutAnswer::Created { StatusCode::CREATED } else { StatusCode::OK };
    // Whatever is wrong with reading it must not look as if the change had failed.
    match app.look(Schedules::new(app.reads.clone()).get(&schedule.name)).await {
        Ok(record) => json(status, &SchedulePut { answer: done, schedule: Schedule::new(&record, false) }),
        Err(_) => Ok(StatusCode::NO_CONTENT.into_response()),
    }
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
