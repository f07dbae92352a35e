//! Working over HTTP: claim with a long poll, ask what a token holds, keep leases (rules C1..C9, H1..H4). It refuses
//! to let a claim wait longer than a minute.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::value::RawValue;
use turno::{
    Beat, ClaimRequest, Claimed, ClaimedJob, Failure, HeartbeatAnswer, Retry, Token, check_json, limits,
};

use super::types::{
    BeatAnswer, ClaimBody, ClaimedBody, HeartbeatAnswers, HeartbeatBody, HeldBody, JobUnderLease,
};
use super::{BodyProblems, Problems, json};
use crate::serve::access::Right;
use crate::serve::caller::Caller;
use crate::serve::connections::closed;
use crate::serve::extract::Body;
use crate::serve::problem::Problem;
use crate::serve::state::{Served, Shared, WAITING_CLAIMS_MAX};

/// Most jobs of one claim over HTTP, whose answer holds all their payloads.
const CLAIM_JOBS_MAX: u32 = 100;
/// The longest wait of one claim.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Pauses between two looks: from the first to the second.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long the database remembers that this server sleeps.
const WAIT_TTL: Duration = Duration::from_secs(10);

/// Claim jobs; waits for one if there is none. Role: worker. The first heartbeat of a job says that it has started: a lease that ends
/// before is not charged, at most three times a job.
///
/// If the answer was lost, or is a 503 `outcome_unknown`, send the same request with the same `token` again: it answers the jobs that the token
/// holds already, and takes more only if it holds none. Make a new token for each claim, and keep it until it was answered. Whoever sent none cannot
/// ask; what was taken is free again when its lease ends.
#[utoipa::path(post, path = "/claim", operation_id = "claim", tag = "work", request_body = ClaimBody,
    responses((status = 200, description = "Up to `limit` jobs", body = ClaimedBody), Problems, BodyProblems))]
pub async fn claim(State(app): State<Shared>, caller: Caller, body: Body) -> Result<Response, Problem> {
    caller.need(Right::Work)?;
    let (body, _turn) = body.json::<ClaimBody>(&app).await?;
    let wait = Duration::from_millis(body.wait_ms);
    if wait > WAIT_MAX {
        return Err(Problem::invalid(format!("wait_ms {} is above {}", body.wait_ms, WAIT_MAX.as_millis())));
    }
    if body.limit > CLAIM_JOBS_MAX {
        return Err(Problem::invalid(format!("limit {} is above {CLAIM_JOBS_MAX}", body.limit)));
    }
    let token = body.token.map(Token::new).transpose()?.unwrap_or_else(Token::random);
    let request = ClaimRequest {
        queues: body.queues,
        worker: body.worker,
        limit: body.limit,
        lease: Duration::from_millis(body.lease_ms),
        token,
        // What a heartbeat has not reported as started is not charged if the answer to this claim is lost (rule F2).
        start: Some(0),
        from_ranks: Vec::new(),
    };
    request.check()?;
    app.upkeep.claimed(&app.backend);
    let claimed = wait_for_jobs(&app, &request, wait).await?;
    let jobs = presentable(&app, &request.worker, claimed.jobs).await;
    let next_due_in_ms = claimed.next_due_in.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    json(StatusCode::OK, &ClaimedBody { token: token.as_uuid(), jobs, next_due_in_ms })
}

/// Looks, says that it is going to sleep, looks once more, and then whenever the doorbell rings or a pause is over.
async fn wait_for_jobs(app: &Served, request: &ClaimRequest, wait: Duration) -> Result<Claimed, Problem> {
    let until = Instant::now() + wait;
    let mut doorbell = app.backend.doorbell();
    let claimed = app.ask(app.backend.claim(request)).await?;
    if !claimed.jobs.is_empty() || wait.is_zero() {
        return Ok(claimed);
    }
    let Ok(_turn) = app.waiting.try_acquire() else {
        let detail = format!("{WAITING_CLAIMS_MAX} claims wait already");
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_waiting", detail));
    };
    let (mut pause, mut announced_at, mut closing) = (PAUSE_MIN, None::<Instant>, app.closing.clone());
    loop {
        if announced_at.is_none_or(|at| at.elapsed() > WAIT_TTL / 2) {
            // Without the announcement the pauses still bound how late a job is found.
            let _ = app.ask(app.backend.wait(&request.queues, WAIT_TTL)).await;
            announced_at = Some(Instant::now());
        }
        doorbell.borrow_and_update();
        let claimed = app.ask(app.backend.claim(request)).await?;
        let left = until.saturating_duration_since(Instant::now());
        if !claimed.jobs.is_empty() || left.is_zero() {
            return Ok(claimed);
        }
        let due = claimed.next_due_in.unwrap_or(PAUSE_MAX).max(Duration::from_millis(1));
        tokio::select! {
            rang = doorbell.changed() => if rang.is_err() { tokio::time::sleep(pause.min(left)).await },
            () = tokio::time::sleep(pause.min(left).min(due)) => {}
            () = closed(&mut closing) => return Ok(claimed),
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// What arrived by plain SQL and is no JSON within the limits is dead with a diagnosis; no worker sees it (rule E10).
async fn presentable(app: &Served, worker: &str, jobs: Vec<ClaimedJob>) -> Vec<JobUnderLease> {
    let (mut good, mut bad) = (Vec::with_capacity(jobs.len()), Vec::new());
    for job in jobs {
        let checked = check_json("the payload", &job.payload, limits::PAYLOAD_BYTES_MAX_DEFAULT)
            .map_err(|error| error.to_string())
            .and_then(|()| RawValue::from_string(job.payload.clone()).map_err(|error| error.to_string()));
        match checked {
            Ok(payload) => good.push(JobUnderLease::new(job, payload)),
            Err(error) => bad.push(Failure { proof: job.proof, error, retry: Retry::Never }),
        }
    }
    if !bad.is_empty()
        && let Err(problem) = app.ask(app.backend.fail(worker, &bad)).await
    {
        // Their leases end, and the next claim finds them again.
        tracing::warn!(problem = problem.detail(), "cannot fail jobs whose payload is no JSON");
    }
    good
}

/// The jobs that a token holds: the answer to a claim with unknown outcome. Role: worker.
#[utoipa::path(post, path = "/held", operation_id = "held", tag = "work", request_body = HeldBody,
    responses((status = 200, description = "The jobs", body = ClaimedBody), Problems, BodyProblems))]
pub async fn held(State(app): State<Shared>, caller: Caller, body: Body) -> Result<Response, Problem> {
    caller.need(Right::Work)?;
    let (body, _turn) = body.json::<HeldBody>(&app).await?;
    let token = Token::new(body.token)?;
    let jobs = app.look(app.reads.held(token)).await?;
    let jobs = presentable(&app, "held", jobs).await;
    json(StatusCode::OK, &ClaimedBody { token: body.token, jobs, next_due_in_ms: None })
}

/// Extend leases, of up to 1,000 jobs, and say that they have started. Role: worker. Call it when a job begins, and then
/// every third of a lease. Safe to repeat.
#[utoipa::path(post, path = "/heartbeat", operation_id = "heartbeat", tag = "work", request_body = HeartbeatBody,
    responses((status = 200, description = "In the order of the request", body = HeartbeatAnswers), Problems, BodyProblems))]
pub async fn heartbeat(
    State(app): State<Shared>,
    caller: Caller,
    body: Body,
) -> Result<Json<HeartbeatAnswers>, Problem> {
    caller.need(Right::Work)?;
    let (body, _turn) = body.json::<HeartbeatBody>(&app).await?;
    if body.jobs.len() > limits::HEARTBEAT_JOBS_MAX {
        let (n, max) = (body.jobs.len(), limits::HEARTBEAT_JOBS_MAX);
        return Err(Problem::invalid(format!("a heartbeat takes at most {max} jobs, not {n}")));
    }
    let proofs = body.jobs.iter().map(|job| job.proof()).collect::<Result<Vec<_>, _>>()?;
    let beats: Vec<Beat> = proofs.iter().map(|proof| Beat { proof: *proof, started: true }).collect();
    let lease = Duration::from_millis(body.lease_ms);
    if !(limits::LEASE_MIN..=limits::LEASE_MAX).contains(&lease) {
        return Err(Problem::invalid(format!("lease_ms {} is not between 1 and 86400000", body.lease_ms)));
    }
    let answers = app.ask(app.backend.heartbeat(&beats, lease)).await?;
    let jobs = proofs.iter().zip(answers).map(|(proof, answer)| {
        let (word, held_for, cancel_requested) = match answer {
            HeartbeatAnswer::Held { held_for, cancel_requested, .. } => {
                ("held", Some(held_for), cancel_requested)
            }
            HeartbeatAnswer::Busy => ("busy", None, false),
            HeartbeatAnswer::Lost => ("lost", None, false),
            HeartbeatAnswer::Finished => ("finished", None, false),
        };
        let held_for_ms = held_for.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        BeatAnswer { id: proof.job, attempt: proof.attempt, answer: word, held_for_ms, cancel_requested }
    });
    Ok(Json(HeartbeatAnswers { jobs: jobs.collect() }))
}
