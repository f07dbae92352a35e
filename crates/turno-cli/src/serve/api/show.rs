//! Looking over HTTP (rules V1, V2). Payloads are redacted unless asked for.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use turno::{JobFilter, JobId, KeySearch, QueueStats, limits};
use utoipa::ToSchema;

use super::types::{JobsQuery, RefusedQuery, ShowQuery, StatsQuery};
use super::{Problems, json, unwritable};
use crate::serve::access::Right;
use crate::serve::caller::Caller;
use crate::serve::extract::{Id, Query};
use crate::serve::problem::Problem;
use crate::serve::state::{ROWS_AT_ONCE, Shared};
use crate::views::{Attempt, Job, Refusal, Settings, Stats};

/// Most lines of the ledger that are shown with a job.
const REFUSED_SHOWN: u32 = 100;
/// The longest window of `stats`: a longer one reads more rows of more queues than an answer to everybody may.
const WINDOW_MS_MAX: u64 = 86_400_000;

/// A page of jobs.
#[derive(Serialize, ToSchema)]
pub struct JobsPage {
    /// Newest first.
    #[schema(value_type = Vec<Job>)]
    jobs: Vec<Box<RawValue>>,
    /// The `before` of the next page, if there may be one; also where this page is not full.
    #[schema(value_type = Option<String>)]
    next: Option<JobId>,
    /// Set if the search stopped at this id, before the page was full, since it had looked at 10,000 jobs: older ones may
    /// match.
    #[schema(value_type = Option<String>)]
    searched_to: Option<JobId>,
}

/// A page of jobs in one state, newest first; or with `key`, in any state, of the jobs that have this unique key or that this
/// idempotency key stands for, found at any size. Roles: viewer, operator, scheduler.
#[utoipa::path(get, path = "/jobs", operation_id = "jobs", tag = "look", params(JobsQuery),
    responses((status = 200, description = "The page", body = JobsPage), Problems))]
pub async fn jobs(
    State(app): State<Shared>,
    caller: Caller,
    Query(query): Query<JobsQuery>,
) -> Result<Response, Problem> {
    caller.need(Right::Jobs)?;
    check_limit(query.limit)?;
    if query.payload && query.limit > ROWS_AT_ONCE {
        let detail = format!("limit {} is above {ROWS_AT_ONCE}, the most with payloads", query.limit);
        return Err(Problem::invalid(detail));
    }
    for (what, name) in [("queue", &query.queue), ("kind", &query.kind)] {
        name.as_deref().map_or(Ok(()), |name| turno::check_name(what, name))?;
    }
    let ask = asked(&query)?;
    // Rows carry their payloads, shown or not: only a part of the page is in memory with them.
    let (mut shown, mut before) = (Vec::new(), query.before);
    loop {
        let limit = ROWS_AT_ONCE.min(query.limit - shown.len() as u32);
        let page = match &ask {
            Ask::Jobs(filter) => {
                app.look(app.reads.jobs(&JobFilter { before, limit, ..filter.clone() })).await?
            }
            Ask::Key(search) => {
                app.look(app.reads.find(&KeySearch { before, limit, ..search.clone() })).await?
            }
        };
        for job in &page.jobs {
            shown.push(to_raw_value(&Job::new(job, query.payload)).map_err(unwritable)?);
        }
        before = page.next(limit);
        if before.is_none() || page.searched_to.is_some() || shown.len() == query.limit as usize {
            let answer = JobsPage { jobs: shown, next: before, searched_to: page.searched_to };
            return json(StatusCode::OK, &answer);
        }
    }
}

/// What a list asks the database for.
enum Ask {
    Jobs(JobFilter),
    Key(KeySearch),
}

fn asked(query: &JobsQuery) -> Result<Ask, Problem> {
    let (queue, limit) = (query.queue.clone(), query.limit);
    match (query.state, &query.key, &query.kind) {
        (Some(state), None, kind) => {
            Ok(Ask::Jobs(JobFilter { queue, kind: kind.clone(), ..JobFilter::new(state, limit) }))
        }
        (None, Some(key), None) => Ok(Ask::Key(KeySearch { queue, ..KeySearch::new(key, limit) })),
        (None, None, _) => Err(Problem::invalid("give `state`, or `key`")),
        (_, Some(_), _) => Err(Problem::invalid("`key` goes with neither `state` nor `kind`")),
    }
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
    let job = app.look(app.reads.job(id)).await?;
    let job = job.ok_or_else(|| Problem::not_found(format!("there is no job {id}")))?;
    let attempts = app.look(app.reads.attempts(id)).await?;
    let refused = app.look(app.reads.refused(Some(id), None, REFUSED_SHOWN)).await?;
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
    let lines = app.look(app.reads.refused(query.job, query.before, query.limit)).await?;
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

/// The state of each queue, over a window of at most a day. Every role but the producer.
#[utoipa::path(get, path = "/stats", operation_id = "stats", tag = "look", params(StatsQuery),
    responses((status = 200, description = "By queue", body = StatsAnswer), Problems))]
pub async fn stats(
    State(app): State<Shared>,
    caller: Caller,
    Query(query): Query<StatsQuery>,
) -> Result<Response, Problem> {
    caller.need(Right::Stats)?;
    if !(1..=WINDOW_MS_MAX).contains(&query.window_ms) {
        let detail = format!(
            "window_ms {} is not in 1..={WINDOW_MS_MAX}, a day; `turno stats --window` looks further back",
            query.window_ms
        );
        return Err(Problem::invalid(detail));
    }
    let window = Duration::from_millis(query.window_ms);
    let mut stats = app.look(app.reads.stats(window)).await?;
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
    let settings = app.look(app.reads.queue_list()).await?;
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
