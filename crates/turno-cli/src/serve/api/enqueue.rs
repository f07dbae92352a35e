//! Enqueue over HTTP: one job, or many in one transaction (rules E1..E11).

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use turno::NewJob;

use super::types::{BatchBody, BatchEnqueued, EnqueuedBody, JobBody};
use super::{BodyProblems, Problems, json};
use crate::otel;
use crate::serve::access::Right;
use crate::serve::caller::Caller;
use crate::serve::extract::Body;
use crate::serve::problem::Problem;
use crate::serve::state::Shared;

/// Enqueue one job. Roles: producer, scheduler, operator; with a priority the scheduler alone.
///
/// If the answer was lost, or is a 503 `outcome_unknown`, nobody knows whether the job is there: send the same request with the same
/// `idempotency_key` again, which answers the job that the first one made (200, `created: false`) or makes it. Without such a key a repeat may make
/// a second job.
#[utoipa::path(post, path = "/jobs", operation_id = "enqueue", tag = "enqueue", request_body = JobBody, responses(
    (status = 201, description = "The job was created", body = EnqueuedBody),
    (status = 200, description = "A key found the job already there", body = EnqueuedBody),
    Problems,
    BodyProblems
))]
pub async fn enqueue(
    State(app): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    caller.need(Right::Enqueue)?;
    let (body, _turn) = body.json::<JobBody>(&app).await?;
    let job = traced(NewJob::from(body), &headers);
    may_have_priorities(&caller, std::slice::from_ref(&job))?;
    let answers = app.ask(app.backend.enqueue(&[job])).await?;
    let enqueued = answers.first().ok_or_else(|| Problem::unavailable("the database did not answer"))?;
    let status = if enqueued.created { StatusCode::CREATED } else { StatusCode::OK };
    json(status, &EnqueuedBody { id: enqueued.id, created: enqueued.created })
}

/// Enqueue many jobs: all or none. Roles as for one.
///
/// If the answer was lost, or is a 503 `outcome_unknown`, either all of them are there or none: send the same request again, if each job has its
/// `idempotency_key`.
#[utoipa::path(post, path = "/jobs/batch", operation_id = "enqueue_many", tag = "enqueue", request_body = BatchBody,
    responses((status = 200, description = "In the order of the request", body = BatchEnqueued), Problems, BodyProblems))]
pub async fn enqueue_many(
    State(app): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<BatchEnqueued>, Problem> {
    caller.need(Right::Enqueue)?;
    let (body, _turn) = body.json::<BatchBody>(&app).await?;
    let jobs: Vec<NewJob> = body.jobs.into_iter().map(|job| traced(NewJob::from(job), &headers)).collect();
    may_have_priorities(&caller, &jobs)?;
    let answers = app.ask(app.backend.enqueue(&jobs)).await?;
    let jobs = answers.iter().map(|one| EnqueuedBody { id: one.id, created: one.created }).collect();
    Ok(Json(BatchEnqueued { jobs }))
}

/// A tracing HTTP client sends the header by itself; the field is for a batch whose jobs belong to several traces. Where the request has a
/// span here, that is between the client's and the attempts'.
fn traced(mut job: NewJob, headers: &HeaderMap) -> NewJob {
    let header = || headers.get("traceparent")?.to_str().ok().map(str::to_owned);
    job.traceparent = job.traceparent.take().or_else(otel::current_traceparent).or_else(header);
    job
}

/// A priority is the scheduler's alone, whatever the database's role of this server may do (rule E2).
fn may_have_priorities(caller: &Caller, jobs: &[NewJob]) -> Result<(), Problem> {
    if jobs.iter().any(|job| job.priority.is_some()) {
        caller.need(Right::Prioritize)?;
    }
    Ok(())
}
