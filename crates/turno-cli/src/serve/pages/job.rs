//! One job's whole story. The payload stays hidden until somebody asks for it.

use askama::Template;
use axum::extract::State;
use serde::Deserialize;
use turno::{AttemptRecord, JobRecord};

use super::refused::RefusedLine;
use super::show::{between, bytes, instant, instant_or, line};
use super::visitor::{Shell, Visitor};
use super::{Answer, render};
use crate::parse;
use crate::serve::access::Right;
use crate::serve::extract::{Id, Query};
use crate::serve::problem::Problem;
use crate::serve::state::Shared;

/// Most refused results on the page.
const REFUSED_SHOWN: u32 = 100;

/// Whether to show the payload.
#[derive(Debug, Deserialize)]
pub struct Asked {
    #[serde(default)]
    payload: bool,
}

struct Head {
    id: String,
    state: turno::State,
    error_text: Option<String>,
}

struct AttemptLine {
    attempt: i64,
    verb: &'static str,
    charged: &'static str,
    claimed: String,
    started: String,
    ended: String,
    took: String,
    worker: String,
    error: String,
}

impl From<&AttemptRecord> for AttemptLine {
    fn from(attempt: &AttemptRecord) -> Self {
        AttemptLine {
            attempt: attempt.attempt,
            verb: attempt.verb.as_str(),
            charged: if attempt.charged { "yes" } else { "no" },
            claimed: instant(attempt.claimed_at),
            started: instant_or(attempt.started_at),
            ended: instant(attempt.ended_at),
            took: between(attempt.claimed_at, attempt.ended_at),
            worker: attempt.worker.clone().unwrap_or_default(),
            error: line(attempt.error.as_deref()),
        }
    }
}

#[derive(Template)]
#[template(path = "job.html")]
struct JobPage {
    shell: Option<Shell>,
    job: Head,
    actions: Vec<(String, &'static str)>,
    facts: Vec<(&'static str, String)>,
    payload: Option<String>,
    payload_note: String,
    result: Option<String>,
    result_note: Option<String>,
    can_show: bool,
    attempts: Vec<AttemptLine>,
    refused: Vec<RefusedLine>,
}

/// The story.
pub async fn show(
    State(app): State<Shared>,
    visitor: Visitor,
    Id(id): Id,
    Query(asked): Query<Asked>,
) -> Answer {
    visitor.need(Right::Story)?;
    let job = app.look(app.reads.job(id)).await?;
    let job = job.ok_or_else(|| Problem::not_found(format!("There is no job {id}.")))?;
    let attempts = app.look(app.reads.attempts(id)).await?;
    let refused = app.look(app.reads.refused(Some(id), None, REFUSED_SHOWN)).await?;
    let hidden = |text: &Option<String>| match text {
        Some(text) => format!("{}, hidden.", bytes(text.len())),
        None => "None is kept.".to_owned(),
    };
    let shown = |text: &Option<String>| text.clone().filter(|_| asked.payload);
    let result_note = (job.result.is_some() && !asked.payload).then(|| hidden(&job.result));
    Ok(render(&JobPage {
        shell: visitor.shell("jobs", !job.state.is_final()),
        actions: actions(&visitor, &job),
        facts: facts(&job),
        payload: shown(&job.payload),
        payload_note: hidden(&job.payload),
        result: shown(&job.result),
        result_note,
        can_show: job.payload.is_some() || job.result.is_some(),
        attempts: attempts.iter().map(AttemptLine::from).collect(),
        refused: refused.iter().map(RefusedLine::from).collect(),
        job: Head { id: id.to_string(), state: job.state, error_text: job.error },
    }))
}

fn actions(visitor: &Visitor, job: &JobRecord) -> Vec<(String, &'static str)> {
    let mut actions = Vec::new();
    let id = job.id;
    if job.state == turno::State::Dead && visitor.may(Right::Retry) {
        actions.push((format!("/jobs/{id}/retry"), "Retry"));
    }
    if !job.state.is_final() && visitor.may(Right::Cancel) {
        actions.push((format!("/jobs/{id}/cancel"), "Cancel"));
    }
    if !job.state.is_final() && visitor.may(Right::Prioritize) {
        actions.push((format!("/jobs/{id}/priority"), "Change priority"));
    }
    actions
}

fn facts(job: &JobRecord) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("Queue", job.queue.clone()),
        ("Kind", job.kind.clone()),
        ("Priority", job.priority.to_string()),
        ("Attempt", job.attempt.to_string()),
        ("Failures", format!("{} of {}", job.failures, job.max_attempts)),
        ("Max run", parse::show(job.max_run)),
        ("Created", instant(job.created_at)),
        ("Due", instant(job.run_at)),
        ("Operation id", job.operation_id.to_string()),
    ];
    let texts = [("Unique key", &job.unique_key), ("Worker", &job.worker), ("Trace", &job.traceparent)];
    facts.extend(texts.into_iter().filter_map(|(name, text)| Some((name, text.clone()?))));
    let instants = [
        ("Claimed", job.claimed_at),
        ("Lease until", job.lease_until),
        ("Cancel asked", job.cancel_requested_at),
        ("Ended", job.finished_at),
    ];
    facts.extend(instants.into_iter().filter_map(|(name, at)| Some((name, instant(at?)))));
    facts
}
