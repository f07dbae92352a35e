//! Looking over HTTP (rules V1, V2). Payloads are redacted unless asked for.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use turno::{JobFilter, JobId, QueueStats, limits};
use utoipa::ToSchema;

use super::types::{JobsQuery, RefusedQuery, ShowQuery, StatsQuery};
use super::{Problems, json};
use crate::serve::access::Right;
use crate::serve::caller::Caller;
use crate::serve::extract::{Id, Query};
use crate::serve::problem::Problem;
use crate::serve::state::Shared;
use crate::views::{Attempt, Job, Refusal, Settings, Stats};

/// Most lines of the ledger that are shown with a job.
const REFUSED_SHOWN: u32 = 100;

/// A page of jobs.
#[derive(Serialize, ToSchema)]
pub struct JobsPage<'a> {
    /// Newest first.
    jobs: Vec<Job<'a>>,
    /// The `before` of the next page, if there may be one.
    #[schema(value_type = Option<String>)]
    next: Option<JobId>,
}

/// A page of jobs in one state, newest first. Roles: viewer, operator, scheduler.
#[utoipa::path(get, path = "/jobs", operation_id = "jobs", tag = "look", params(JobsQuery),
    responses((status = 200, description = "The page", body = JobsPage), Problems))]
pub async fn jobs(
    State(app): State<Shared>,
    caller: Caller,
    Query(query): Query<JobsQuery>,
) -> Result<Response, Problem> {
    caller.need(Right::Jobs)?;
    check_limit(query.limit)?;
    for (what, name) in [("queue", &query.queue), ("kind", &query.kind)] {
        name.as_deref().map_or(Ok(()), |name| turno::check_name(what, name))?;
    }
    let filter = JobFilter {
        state: query.state,
        queue: query.queue,
        kind: query.kind,
        before: query.before,
        limit: query.limit,
    };
    let jobs = app.ask(app.backend.jobs(&filter)).await?;
    let next = jobs.last().map(|job| job.id).filter(|_| jobs.len() == query.limit as usize);
    let jobs = jobs.iter().map(|job| Job::new(job, query.payload)).collect();
    json(StatusCode::OK, &JobsPage { jobs, next })
}

/// A job with everything that is known of it.
#[derive(Serialize, ToSchema)]
pub struct JobStory<'a> {
    /// The job.
    job: Job<'a>,
    /// Its ended attempts.
    attempts: Vec<Attempt<'a>>,
    /// Results that were refused.
    refused: Vec<Refusal<'a>>,
}

/// One job with its attempts and its refused results. Roles: viewer, operator.
#[utoipa::path(get, path = "/jobs/{id}", operation_id = "job", tag = "look",
    params(("id" = String, Path, pattern = "^[0-9]{1,18}$"), ShowQuery),
    responses((status = 200, description = "The job", body = JobStory), Problems))]
pub async fn job(
    State(app): State<Shared>,
    caller: Caller,
    Id(id): Id,
    Query(query): Query<ShowQuery>,
) -> Result<Response, Problem> {
    caller.need(Right::Story)?;
    let job = app.ask(app.backend.job(id)).await?;
    let job = job.ok_or_else(|| Problem::not_found(format!("there is no job {id}")))?;
    let attempts = app.ask(app.backend.attempts(id)).await?;
    let refused = app.ask(app.backend.refused(Some(id), None, REFUSED_SHOWN)).await?;
    let story = JobStory {
        job: Job::new(&job, query.payload),
        attempts: attempts.iter().map(Attempt::from).collect(),
        refused: refused.iter().map(|line| Refusal::new(line, query.payload)).collect(),
    };
    json(StatusCode::OK, &story)
}

/// A page of the ledger.
#[derive(Serialize, ToSchema)]
pub struct RefusedPage<'a> {
    /// Newest first.
    refused: Vec<Refusal<'a>>,
    /// The `before` of the next page, if there may be one.
    next: Option<i64>,
}

/// A page of the ledger of refused results, newest first. Roles: viewer, operator.
#[utoipa::path(get, path = "/refused", operation_id = "refused", tag = "look", params(RefusedQuery),
    responses((status = 200, description = "The page", body = RefusedPage), Problems))]
pub async fn refused(
    State(app): State<Shared>,
    caller: Caller,
    Query(query): Query<RefusedQuery>,
) -> Result<Response, Problem> {
    caller.need(Right::Story)?;
    check_limit(query.limit)?;
    if query.before.is_some_and(|before| before < 0) {
        return Err(Problem::invalid("`before` is no line of the ledger"));
    }
    let lines = app.ask(app.backend.refused(query.job, query.before, query.limit)).await?;
    let next = lines.last().map(|line| line.id).filter(|_| lines.len() == query.limit as usize);
    let refused = lines.iter().map(|line| Refusal::new(line, query.payload)).collect();
    json(StatusCode::OK, &RefusedPage { refused, next })
}

/// The state of all queues.
#[derive(Serialize, ToSchema)]
pub struct StatsAnswer<'a> {
    /// The queue with the oldest due job first.
    queues: Vec<Stats<'a>>,
}

/// The state of each queue. Every role but the producer.
#[utoipa::path(get, path = "/stats", operation_id = "stats", tag = "look", params(StatsQuery),
    responses((status = 200, description = "By queue", body = StatsAnswer), Problems))]
pub async fn stats(
    State(app): State<Shared>,
    caller: Caller,
    Query(query): Query<StatsQuery>,
) -> Result<Response, Problem> {
    caller.need(Right::Stats)?;
    if !(1..=315_360_000_000).contains(&query.window_ms) {
        return Err(Problem::invalid(format!("window_ms {} is not in 1..=315360000000", query.window_ms)));
    }
    let window = Duration::from_millis(query.window_ms);
    let mut stats = app.ask(app.backend.stats(window)).await?;
    stats.sort_by(oldest_first);
    let queues = stats.iter().map(|stats| Stats::new(stats, window)).collect();
    json(StatusCode::OK, &StatsAnswer { queues })
}

/// The queue with the oldest due job first, then by name.
pub fn oldest_first(a: &QueueStats, b: &QueueStats) -> std::cmp::Ordering {
    b.oldest_due_age.cmp(&a.oldest_due_age).then_with(|| a.queue.cmp(&b.queue))
}

/// The settings of all queues.
#[derive(Serialize, ToSchema)]
pub struct QueuesAnswer<'a> {
    /// The defaults first.
    queues: Vec<Settings<'a>>,
}

/// The settings: the defaults first, then every queue that has settings or jobs. Every role.
#[utoipa::path(get, path = "/queues", operation_id = "queues", tag = "look",
    responses((status = 200, description = "The settings", body = QueuesAnswer), Problems))]
pub async fn queues(State(app): State<Shared>, caller: Caller) -> Result<Response, Problem> {
    caller.need(Right::Queues)?;
    let settings = app.ask(app.backend.queue_list()).await?;
    let queues = settings.iter().map(Settings::from).collect();
    json(StatusCode::OK, &QueuesAnswer { queues })
}

fn check_limit(limit: u32) -> Result<(), Problem> {
    let max = limits::PAGE_ROWS_MAX;
    if (1..=max).contains(&limit) {
        return Ok(());
    }
    Err(Problem::invalid(format!("limit {limit} is not in 1..={max}")))
}
