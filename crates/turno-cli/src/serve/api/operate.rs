//! Repairs over HTTP (rules P1..P5).

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use turno::{CancelAnswer, JobId};

use super::types::{CancelBody, CancelledBody, PausedBody, PriorityBody};
use super::{BodyProblems, Problems, json};
use crate::serve::access::Right;
use crate::serve::caller::Caller;
use crate::serve::extract::{Body, Id, Name};
use crate::serve::problem::Problem;
use crate::serve::state::{Served, Shared};
use crate::views::Job;

/// Cancel a waiting job; ask a running one to stop, or revoke it with `force`. Roles: operator, scheduler. A job that
/// had ended before is a 409.
#[utoipa::path(post, path = "/jobs/{id}/cancel", operation_id = "cancel", tag = "operate",
    params(("id" = String, Path, pattern = "^[0-9]{1,18}$")), request_body = Option<CancelBody>,
    responses((status = 200, description = "It is cancelled, or its worker is asked", body = CancelledBody), Problems, BodyProblems))]
pub async fn cancel(
    State(app): State<Shared>,
    caller: Caller,
    Id(id): Id,
    body: Body,
) -> Result<Json<CancelledBody>, Problem> {
    caller.need(Right::Cancel)?;
    let body: CancelBody = body.json_or_default(&app).await?;
    match app.ask_for_job(app.backend.cancel(id, body.force)).await? {
        CancelAnswer::Cancelled => Ok(Json(CancelledBody { id, answer: "cancelled" })),
        CancelAnswer::Requested => Ok(Json(CancelledBody { id, answer: "requested" })),
        CancelAnswer::TooLate(state) => {
            Err(Problem::new(StatusCode::CONFLICT, "too_late", format!("job {id} is {state} already")))
        }
    }
}

/// Run a dead job again. Role: operator.
#[utoipa::path(post, path = "/jobs/{id}/retry", operation_id = "retry", tag = "operate",
    params(("id" = String, Path, pattern = "^[0-9]{1,18}$")),
    responses((status = 200, description = "The job as it is now", body = Job),
        (status = 204, description = "It was done; the job has no record any more, or cannot be read now"), Problems))]
pub async fn retry(State(app): State<Shared>, caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    caller.need(Right::Retry)?;
    app.ask_for_job(app.backend.retry(id)).await?;
    now(&app, id).await
}

/// Change the priority of an unfinished job. Role: scheduler.
#[utoipa::path(post, path = "/jobs/{id}/priority", operation_id = "reprioritize", tag = "operate",
    params(("id" = String, Path, pattern = "^[0-9]{1,18}$")), request_body = PriorityBody,
    responses((status = 200, description = "The job as it is now", body = Job),
        (status = 204, description = "It was done; the job has no record any more, or cannot be read now"), Problems, BodyProblems))]
pub async fn reprioritize(
    State(app): State<Shared>,
    caller: Caller,
    Id(id): Id,
    body: Body,
) -> Result<Response, Problem> {
    caller.need(Right::Prioritize)?;
    let (body, _turn) = body.json::<PriorityBody>(&app).await?;
    app.ask_for_job(app.backend.reprioritize(id, body.priority)).await?;
    now(&app, id).await
}

/// The job after a change that was carried out: whatever is wrong with reading it must not look as if the change had
/// failed, and a worker may have ended it meanwhile, with no record left.
async fn now(app: &Served, id: JobId) -> Result<Response, Problem> {
    match app.look(app.reads.job(id)).await {
        Ok(Some(job)) => json(StatusCode::OK, &Job::new(&job, false)),
        Ok(None) | Err(_) => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

/// Let no further claim take a job of this queue. Role: operator.
#[utoipa::path(post, path = "/queues/{queue}/pause", operation_id = "pause", tag = "operate",
    params(("queue" = String, Path, min_length = 1, max_length = 200)),
    responses((status = 200, description = "It is paused", body = PausedBody), Problems))]
pub async fn pause(
    State(app): State<Shared>,
    caller: Caller,
    Name(queue): Name,
) -> Result<Json<PausedBody>, Problem> {
    caller.need(Right::Pause)?;
    turno::check_name("queue", &queue)?;
    app.ask(app.backend.pause(&queue)).await?;
    Ok(Json(PausedBody { queue, paused: true }))
}

/// End a pause. Role: operator.
#[utoipa::path(post, path = "/queues/{queue}/resume", operation_id = "resume", tag = "operate",
    params(("queue" = String, Path, min_length = 1, max_length = 200)),
    responses((status = 200, description = "It is not paused", body = PausedBody), Problems))]
pub async fn resume(
    State(app): State<Shared>,
    caller: Caller,
    Name(queue): Name,
) -> Result<Json<PausedBody>, Problem> {
    caller.need(Right::Pause)?;
    turno::check_name("queue", &queue)?;
    app.ask(app.backend.resume(&queue)).await?;
    Ok(Json(PausedBody { queue, paused: false }))
}
