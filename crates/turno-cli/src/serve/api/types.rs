//! The bodies of the HTTP API: what is asked and what is answered. It refuses unknown fields, shows job ids as strings
//! since many readers of JSON round large integers, and never shows a token but to whoever claimed with it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use time::OffsetDateTime;
use turno::{ClaimedJob, JobId, NewJob, Proof, Retry, Settled, SettledStatus, State, Token};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::serve::object::objects;
use crate::serve::problem::Problem;
use crate::views::{Instant, Millis};

/// A job to enqueue.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobBody {
    /// The queue that routes it to workers.
    #[schema(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f]+$", example = "mail")]
    queue: String,
    /// Which handler runs it.
    #[schema(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f]+$", example = "welcome")]
    kind: String,
    /// Any JSON; kept byte for byte. `null` if it is left out.
    #[serde(default)]
    #[schema(value_type = serde_json::Value, required = false, example = json!({"user": 7}))]
    payload: Option<Box<RawValue>>,
    /// When it is due; now if it is left out or past.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[schema(value_type = Option<String>, format = DateTime)]
    run_at: Option<OffsetDateTime>,
    /// Takes the scheduler's right; lower is more urgent.
    #[schema(minimum = -1000, maximum = 1000)]
    priority: Option<i32>,
    /// The failure budget.
    #[schema(minimum = 1, maximum = 1_000_000)]
    max_attempts: Option<u32>,
    /// Time of one attempt.
    #[schema(minimum = 1, maximum = 31_536_000_000_u64)]
    max_run_ms: Option<u64>,
    /// At most one unfinished job per queue has it.
    #[schema(min_length = 1, max_length = 512)]
    unique_key: Option<String>,
    /// Repeating an enqueue with it answers what the first one answered.
    #[schema(min_length = 1, max_length = 512)]
    idempotency_key: Option<String>,
    /// The trace that the job belongs to (W3C Trace Context); the request's own header `traceparent` if it is left out. A
    /// malformed one is dropped, and the job is enqueued.
    #[schema(example = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]
    traceparent: Option<String>,
}

impl From<JobBody> for NewJob {
    fn from(body: JobBody) -> Self {
        let payload = body.payload.as_deref().map_or("null", RawValue::get);
        let mut job = NewJob::new(body.queue, body.kind, payload);
        job.run_at = body.run_at;
        job.priority = body.priority;
        job.max_attempts = body.max_attempts;
        job.max_run = body.max_run_ms.map(Duration::from_millis);
        job.unique_key = body.unique_key;
        job.idempotency_key = body.idempotency_key;
        job.traceparent = body.traceparent;
        job
    }
}

/// Many jobs to enqueue: all or none.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchBody {
    /// The jobs.
    #[schema(max_items = 100_000)]
    #[serde(deserialize_with = "objects")]
    pub jobs: Vec<JobBody>,
}

/// The answer to one enqueue.
#[derive(Debug, Serialize, ToSchema)]
pub struct EnqueuedBody {
    /// The job that now stands for the request.
    #[schema(value_type = String)]
    pub id: JobId,
    /// Whether this call created it; `false` if a key found it already there.
    pub created: bool,
}

/// The answers to many, in the order of the request.
#[derive(Debug, Serialize, ToSchema)]
pub struct BatchEnqueued {
    /// One for each job.
    pub jobs: Vec<EnqueuedBody>,
}

/// A request for jobs.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimBody {
    /// The queues, served in this order.
    #[schema(min_items = 1, max_items = 100)]
    pub queues: Vec<String>,
    /// A label for people.
    #[schema(min_length = 1, max_length = 200)]
    pub worker: String,
    /// At most this many jobs.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 100)]
    pub limit: u32,
    /// How long the jobs are held without a heartbeat.
    #[serde(default = "half_a_minute")]
    #[schema(minimum = 1, maximum = 86_400_000)]
    pub lease_ms: u64,
    /// A new random UUID. Claiming again with it answers the jobs that it already holds, so that a claim whose answer
    /// was lost can be repeated; without one the server makes it.
    pub token: Option<Uuid>,
    /// Wait this long for a job, if there is none now.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 60_000)]
    pub wait_ms: u64,
}

fn one() -> u32 {
    1
}

fn half_a_minute() -> u64 {
    30_000
}

/// The answer to a claim.
#[derive(Debug, Serialize, ToSchema)]
pub struct ClaimedBody {
    /// Part of the proof of ownership of each of these jobs: a secret.
    pub token: Uuid,
    /// The jobs, best first within each queue.
    pub jobs: Vec<JobUnderLease>,
    /// When the next scheduled job of these queues is due, if the claim came back short.
    pub next_due_in_ms: Option<u64>,
}

/// A job under a lease.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobUnderLease {
    #[schema(value_type = String)]
    id: JobId,
    /// Grows with every claim: part of the proof of ownership, and a fence for stores that can compare.
    attempt: i64,
    queue: String,
    kind: String,
    /// The JSON that was enqueued.
    #[schema(value_type = serde_json::Value)]
    payload: Box<RawValue>,
    priority: i32,
    failures: u32,
    max_attempts: u32,
    /// The same in every attempt: pass it on as the idempotency key of outside effects.
    operation_id: Uuid,
    #[schema(value_type = String, format = DateTime)]
    run_at: Instant,
    #[schema(value_type = String, format = DateTime)]
    created_at: Instant,
    #[schema(value_type = String, format = DateTime)]
    claimed_at: Instant,
    #[schema(value_type = String, format = DateTime)]
    lease_until: Instant,
    #[schema(value_type = u64)]
    max_run_ms: Millis,
    /// The trace that its enqueue belonged to (W3C Trace Context), the same in every attempt.
    traceparent: Option<String>,
}

impl JobUnderLease {
    /// The view of a claimed job with its payload.
    pub fn new(job: ClaimedJob, payload: Box<RawValue>) -> Self {
        JobUnderLease {
            id: job.proof.job,
            attempt: job.proof.attempt,
            queue: job.queue,
            kind: job.kind,
            payload,
            priority: job.priority,
            failures: job.failures,
            max_attempts: job.max_attempts,
            operation_id: job.operation_id,
            run_at: Instant(job.run_at),
            created_at: Instant(job.created_at),
            claimed_at: Instant(job.claimed_at),
            lease_until: Instant(job.lease_until),
            max_run_ms: Millis(job.max_run),
            traceparent: job.traceparent,
        }
    }
}

/// Asks what a token holds.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeldBody {
    /// The token of a claim.
    pub token: Uuid,
}

/// The proof of ownership of one job.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BeatBody {
    #[schema(value_type = String, pattern = "^[0-9]{1,18}$")]
    id: JobId,
    attempt: i64,
    token: Uuid,
}

impl BeatBody {
    /// As the contract has it.
    pub fn proof(&self) -> Result<Proof, Problem> {
        proof(self.id, self.attempt, self.token)
    }
}

/// Leases to keep.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatBody {
    /// How long they are held from now on.
    #[serde(default = "half_a_minute")]
    #[schema(minimum = 1, maximum = 86_400_000)]
    pub lease_ms: u64,
    /// The jobs.
    #[schema(max_items = 1000)]
    #[serde(deserialize_with = "objects")]
    pub jobs: Vec<BeatBody>,
}

/// What became of one lease.
#[derive(Debug, Serialize, ToSchema)]
pub struct BeatAnswer {
    #[schema(value_type = String)]
    pub id: JobId,
    pub attempt: i64,
    /// `held`; `busy`: not extended, ask again soon; `lost`: stop, somebody else may run it; `finished`.
    #[schema(pattern = "^(held|busy|lost|finished)$")]
    pub answer: &'static str,
    /// How long it is held, if it is.
    pub held_for_ms: Option<u64>,
    /// Whether somebody asked for the job to be cancelled: stop, and fail or release it.
    pub cancel_requested: bool,
}

/// What became of the leases, in the order of the request.
#[derive(Debug, Serialize, ToSchema)]
pub struct HeartbeatAnswers {
    pub jobs: Vec<BeatAnswer>,
}

/// The end of one attempt. Which of `result`, `error`, `retry_in_ms`, `never` and `delay_ms` may be there depends on
/// the verb.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompleteBody {
    #[schema(value_type = String, pattern = "^[0-9]{1,18}$")]
    id: JobId,
    attempt: i64,
    token: Uuid,
    /// Any JSON, kept with the finished job.
    #[serde(default)]
    #[schema(value_type = serde_json::Value, required = false)]
    result: Option<Box<RawValue>>,
}

/// A failed attempt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FailBody {
    #[schema(value_type = String, pattern = "^[0-9]{1,18}$")]
    id: JobId,
    attempt: i64,
    token: Uuid,
    /// Why; cut to 8,192 bytes.
    error: String,
    /// Try again after this long, instead of by the queue's back-off.
    #[schema(minimum = 0, maximum = 31_536_000_000_u64)]
    retry_in_ms: Option<u64>,
    /// Do not try again: the job is dead.
    #[serde(default)]
    never: bool,
}

/// A job that is given back uncharged.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseBody {
    #[schema(value_type = String, pattern = "^[0-9]{1,18}$")]
    id: JobId,
    attempt: i64,
    token: Uuid,
    /// Due again after this long; without it the job keeps its place.
    #[schema(minimum = 0, maximum = 31_536_000_000_u64)]
    delay_ms: Option<u64>,
}

/// Attempts that succeeded.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompleteMany {
    /// A label for people, kept with refused results.
    #[schema(min_length = 1, max_length = 200)]
    pub worker: String,
    /// The attempts.
    #[schema(max_items = 1000)]
    #[serde(deserialize_with = "objects")]
    pub jobs: Vec<CompleteBody>,
}

/// Attempts that failed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FailMany {
    /// A label for people, kept with refused results.
    #[schema(min_length = 1, max_length = 200)]
    pub worker: String,
    /// The attempts.
    #[schema(max_items = 1000)]
    #[serde(deserialize_with = "objects")]
    pub jobs: Vec<FailBody>,
}

/// Jobs that are given back.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseMany {
    /// A label for people, kept with refused results.
    #[schema(min_length = 1, max_length = 200)]
    pub worker: String,
    /// The jobs.
    #[schema(max_items = 1000)]
    #[serde(deserialize_with = "objects")]
    pub jobs: Vec<ReleaseBody>,
}

impl TryFrom<CompleteBody> for turno::Completion {
    type Error = Problem;

    fn try_from(body: CompleteBody) -> Result<Self, Problem> {
        let result = body.result.map(|result| result.get().to_owned());
        Ok(turno::Completion { proof: proof(body.id, body.attempt, body.token)?, result })
    }
}

impl TryFrom<FailBody> for turno::Failure {
    type Error = Problem;

    fn try_from(body: FailBody) -> Result<Self, Problem> {
        let retry = match (body.never, body.retry_in_ms) {
            (true, Some(_)) => return Err(Problem::invalid("`never` and `retry_in_ms` exclude each other")),
            (true, None) => Retry::Never,
            (false, Some(ms)) => Retry::In(Duration::from_millis(ms)),
            (false, None) => Retry::Policy,
        };
        Ok(turno::Failure { proof: proof(body.id, body.attempt, body.token)?, error: body.error, retry })
    }
}

impl TryFrom<ReleaseBody> for turno::Release {
    type Error = Problem;

    fn try_from(body: ReleaseBody) -> Result<Self, Problem> {
        let delay = body.delay_ms.map(Duration::from_millis);
        Ok(turno::Release { proof: proof(body.id, body.attempt, body.token)?, delay })
    }
}

/// How one settle ended.
#[derive(Debug, Serialize, ToSchema)]
pub struct SettledBody {
    #[schema(value_type = String)]
    pub id: JobId,
    pub attempt: i64,
    /// `done`; `already`: recorded before, with this answer; `refused`: the proof is not the current one; `gone`.
    #[schema(pattern = "^(done|already|refused|gone)$")]
    pub status: &'static str,
    /// The job's state now.
    #[schema(value_type = Option<String>)]
    pub state: Option<State>,
    /// When it is due again, if it is to run again.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub run_at: Option<Instant>,
    /// Why it was refused.
    pub reason: Option<String>,
}

impl SettledBody {
    /// The view of one answer.
    pub fn new(proof: Proof, settled: Settled) -> Self {
        let status = match settled.status {
            SettledStatus::Done => "done",
            SettledStatus::Already => "already",
            SettledStatus::Refused => "refused",
            SettledStatus::Gone => "gone",
        };
        SettledBody {
            id: proof.job,
            attempt: proof.attempt,
            status,
            state: settled.state,
            run_at: settled.run_at.map(Instant),
            reason: settled.reason,
        }
    }
}

/// How many settles ended, in the order of the request.
#[derive(Debug, Serialize, ToSchema)]
pub struct SettledMany {
    pub jobs: Vec<SettledBody>,
}

/// Which jobs to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct JobsQuery {
    /// In this state. Either this or `key` has to be given.
    #[param(value_type = Option<String>, pattern = "^(scheduled|ready|running|succeeded|dead|cancelled)$")]
    pub state: Option<State>,
    /// With this unique key, or the job that this idempotency key stands for; in any state.
    #[param(min_length = 1, max_length = 512)]
    pub key: Option<String>,
    /// Of this queue.
    #[param(min_length = 1, max_length = 200)]
    pub queue: Option<String>,
    /// Of this kind; goes with `state`.
    #[param(min_length = 1, max_length = 200)]
    pub kind: Option<String>,
    /// Continue below this id.
    #[param(value_type = Option<String>, pattern = "^[0-9]{1,18}$")]
    pub before: Option<JobId>,
    /// At most this many.
    #[serde(default = "fifty")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: u32,
    /// Show payloads and results, of at most 100 jobs.
    #[serde(default)]
    pub payload: bool,
}

/// How much of a job to show.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ShowQuery {
    /// Show payload, result and refused results.
    #[serde(default)]
    pub payload: bool,
}

/// Which lines of the ledger to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RefusedQuery {
    /// Of this job.
    #[param(value_type = Option<String>, pattern = "^[0-9]{1,18}$")]
    pub job: Option<JobId>,
    /// Continue below this line.
    #[param(minimum = 0)]
    pub before: Option<i64>,
    /// At most this many.
    #[serde(default = "fifty")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: u32,
    /// Show the results.
    #[serde(default)]
    pub payload: bool,
}

/// Over which time to look back.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StatsQuery {
    /// How much history the ended jobs, retries and times cover.
    #[serde(default = "an_hour")]
    #[param(minimum = 1, maximum = 86_400_000)]
    pub window_ms: u64,
}

fn fifty() -> u32 {
    50
}

fn an_hour() -> u64 {
    3_600_000
}

/// How to cancel.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelBody {
    /// Revoke a running job at once.
    #[serde(default)]
    pub force: bool,
}

/// The answer to a cancel.
#[derive(Debug, Serialize, ToSchema)]
pub struct CancelledBody {
    #[schema(value_type = String)]
    pub id: JobId,
    /// `cancelled`, or `requested`: its worker is asked to stop.
    #[schema(pattern = "^(cancelled|requested)$")]
    pub answer: &'static str,
}

/// The new priority.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PriorityBody {
    /// Lower is more urgent.
    #[schema(minimum = -1000, maximum = 1000)]
    pub priority: i32,
}

/// Whether a queue is paused now.
#[derive(Debug, Serialize, ToSchema)]
pub struct PausedBody {
    pub queue: String,
    pub paused: bool,
}

fn proof(job: JobId, attempt: i64, token: Uuid) -> Result<Proof, Problem> {
    Ok(Proof { job, attempt, token: Token::new(token)? })
}
