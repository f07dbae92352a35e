//! Lists of jobs in one state, newest first, paged by key.

use askama::Template;
use axum::extract::State;
use serde::Deserialize;
use turno::{JobFilter, JobId};

use super::show::{JobLine, escaped};
use super::visitor::{Shell, Visitor};
use super::{Answer, render};
use crate::serve::access::Right;
use crate::serve::extract::Query;
use crate::serve::state::Shared;

/// Jobs on a page.
const PAGE_ROWS: u32 = 50;

/// Which jobs; empty fields are those of a form that was not filled in.
#[derive(Debug, Deserialize)]
pub struct Filter {
    #[serde(default = "ready")]
    state: turno::State,
    #[serde(default)]
    queue: String,
    #[serde(default)]
    kind: String,
    before: Option<JobId>,
}

/// What it means that nothing is listed, and what may help.
fn nothing(filter: &Filter, stopped: bool) -> String {
    let state = filter.state;
    if stopped {
        return "None among those that were looked at.".to_owned();
    }
    if filter.before.is_some() {
        return format!("No older {state} job.");
    }
    if !filter.queue.is_empty() || !filter.kind.is_empty() {
        return format!(
            "No {state} job of this queue and kind. Names are compared exactly; an empty field means any."
        );
    }
    let why = match state {
        turno::State::Ready => "nothing waits for a worker.",
        turno::State::Running => "no worker has a job now.",
        turno::State::Scheduled => "none is due later or waits for a retry.",
        _ => "or its record’s time is over.",
    };
    format!("No {state} job: {why}")
}

fn ready() -> turno::State {
    turno::State::Ready
}

#[derive(Template)]
#[template(path = "jobs.html")]
struct JobsPage {
    shell: Option<Shell>,
    heading: String,
    states: Vec<(&'static str, bool)>,
    queue: String,
    kind: String,
    jobs: Vec<JobLine>,
    first_href: Option<String>,
    next_href: Option<String>,
    searched_to: Option<String>,
    /// What an empty list means.
    empty: String,
}

/// The list.
pub async fn list(State(app): State<Shared>, visitor: Visitor, Query(filter): Query<Filter>) -> Answer {
    visitor.need(Right::Jobs)?;
    let wanted = JobFilter {
        state: filter.state,
        queue: Some(filter.queue.clone()).filter(|queue| !queue.is_empty()),
        kind: Some(filter.kind.clone()).filter(|kind| !kind.is_empty()),
        before: filter.before,
        limit: PAGE_ROWS,
    };
    let found = app.newest(wanted).await?;
    let href = |before: Option<JobId>| {
        let mut href = format!("/jobs?state={}", filter.state);
        for (name, value) in [("queue", &filter.queue), ("kind", &filter.kind)] {
            if !value.is_empty() {
                href.push_str(&format!("&{name}={}", escaped(value)));
            }
        }
        if let Some(before) = before {
            href.push_str(&format!("&before={before}"));
        }
        href
    };
    let page = if filter.state == turno::State::Running { "running" } else { "jobs" };
    let word = filter.state.as_str();
    Ok(render(&JobsPage {
        shell: visitor.shell(page, filter.before.is_none()),
        heading: format!("{}{} jobs", word[..1].to_uppercase(), &word[1..]),
        states: turno::State::ALL.iter().map(|state| (state.as_str(), *state == filter.state)).collect(),
        jobs: found.jobs.iter().map(JobLine::from).collect(),
        first_href: filter.before.map(|_| href(None)),
        next_href: found.next(PAGE_ROWS).map(|next| href(Some(next))),
        empty: nothing(&filter, found.searched_to.is_some()),
        searched_to: found.searched_to.map(|id| id.to_string()),
        queue: filter.queue,
        kind: filter.kind,
    }))
}
