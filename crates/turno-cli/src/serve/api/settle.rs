//! Settling over HTTP (rules S1..S7). A refusal of one of many is an answer; where one job was sent it is a 409 as
//! well, so that nobody has to look into a body to hear of it.

use std::future::Future;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use turno::{Completion, Failure, Proof, Release, Settled, SettledStatus, limits};

use super::types::{CompleteMany, FailMany, ReleaseMany, SettledBody, SettledMany};
use super::{BodyProblems, Problems, json};
use crate::serve::access::Right;
use crate::serve::caller::Caller;
use crate::serve::extract::Body;
use crate::serve::problem::Problem;
use crate::serve::state::{Served, Shared};

/// Complete attempts. Role: worker. With exactly one job a refusal is a 409 (`lease_lost`, or `conflict` if it was settled otherwise),
/// and a job without a record a 404.
///
/// If the answer was lost, or is a 503 `outcome_unknown`, send the same request again: a proof that has been accepted answers `already`, with what was
/// recorded the first time, and nothing is done twice.
#[utoipa::path(post, path = "/complete", operation_id = "complete", tag = "work", request_body = CompleteMany,
    responses((status = 200, description = "In the order of the request", body = SettledMany), Problems, BodyProblems))]
pub async fn complete(State(app): State<Shared>, caller: Caller, body: Body) -> Result<Response, Problem> {
    caller.need(Right::Work)?;
    let (body, _turn) = body.json::<CompleteMany>(&app).await?;
    let verdicts: Vec<Completion> = verdicts(&body.worker, body.jobs)?;
    let proofs: Vec<Proof> = verdicts.iter().map(|one| one.proof).collect();
    settle(&app, &proofs, app.backend.complete(&body.worker, &verdicts)).await
}

/// Fail attempts: retried by the queue's back-off, after a delay, or never. Role: worker. Refusals and
/// lost answers as for `complete`.
#[utoipa::path(post, path = "/fail", operation_id = "fail", tag = "work", request_body = FailMany,
    responses((status = 200, description = "In the order of the request", body = SettledMany), Problems, BodyProblems))]
pub async fn fail(State(app): State<Shared>, caller: Caller, body: Body) -> Result<Response, Problem> {
    caller.need(Right::Work)?;
    let (body, _turn) = body.json::<FailMany>(&app).await?;
    let verdicts: Vec<Failure> = verdicts(&body.worker, body.jobs)?;
    let proofs: Vec<Proof> = verdicts.iter().map(|one| one.proof).collect();
    settle(&app, &proofs, app.backend.fail(&body.worker, &verdicts)).await
}

/// Give jobs back uncharged. Role: worker. Refusals and lost answers as for `complete`.
#[utoipa::path(post, path = "/release", operation_id = "release", tag = "work", request_body = ReleaseMany,
    responses((status = 200, description = "In the order of the request", body = SettledMany), Problems, BodyProblems))]
pub async fn release(State(app): State<Shared>, caller: Caller, body: Body) -> Result<Response, Problem> {
    caller.need(Right::Work)?;
    let (body, _turn) = body.json::<ReleaseMany>(&app).await?;
    let verdicts: Vec<Release> = verdicts(&body.worker, body.jobs)?;
    let proofs: Vec<Proof> = verdicts.iter().map(|one| one.proof).collect();
    settle(&app, &proofs, app.backend.release(&body.worker, &verdicts)).await
}

fn verdicts<T, V: TryFrom<T, Error = Problem>>(worker: &str, bodies: Vec<T>) -> Result<Vec<V>, Problem> {
    turno::check_name("worker", worker)?;
    let (n, max) = (bodies.len(), limits::SETTLE_JOBS_MAX);
    if n > max {
        return Err(Problem::invalid(format!("one call settles at most {max} jobs, not {n}")));
    }
    bodies.into_iter().map(V::try_from).collect()
}

async fn settle(
    app: &Served,
    proofs: &[Proof],
    call: impl Future<Output = turno::Result<Vec<Settled>>>,
) -> Result<Response, Problem> {
    let answers = app.ask(call).await?;
    if let [only] = answers.as_slice() {
        refusal(only)?;
    }
    let jobs = proofs.iter().zip(answers).map(|(proof, settled)| SettledBody::new(*proof, settled));
    json(StatusCode::OK, &SettledMany { jobs: jobs.collect() })
}

fn refusal(settled: &Settled) -> Result<(), Problem> {
    let reason = settled.reason.as_deref();
    match settled.status {
        SettledStatus::Done | SettledStatus::Already => Ok(()),
        SettledStatus::Gone => Err(Problem::not_found(reason.unwrap_or("no record of the job is left"))),
        SettledStatus::Refused => {
            let reason = reason.unwrap_or("the proof is not the current one");
            let settled_otherwise = reason.starts_with("already settled");
            let code = if settled_otherwise { "conflict" } else { "lease_lost" };
            Err(Problem::new(StatusCode::CONFLICT, code, reason))
        }
    }
}
