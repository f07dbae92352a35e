//! One field for an id, a unique key or a kind. It refuses to read more than a bounded number of jobs.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect};
use serde::Deserialize;
use turno::{JobFilter, JobId, JobRecord, limits};

use super::show::JobLine;
use super::visitor::{Shell, Visitor};
use super::{Answer, render};
use crate::serve::access::Right;
use crate::serve::extract::Query;
use crate::serve::state::{Served, Shared};

/// Jobs that are shown of each state.
const SHOWN: usize = 20;
/// Jobs that are looked at in each state.
const LOOKED_AT: usize = 1000;

/// What to search for.
#[derive(Debug, Deserialize)]
pub struct Asked {
    q: String,
}

#[derive(Template)]
#[template(path = "search.html")]
struct Found {
    shell: Option<Shell>,
    q: String,
    looked_at: usize,
    jobs: Vec<JobLine>,
}

/// What was found; the job itself if it was an id.
pub async fn find(State(app): State<Shared>, visitor: Visitor, Query(asked): Query<Asked>) -> Answer {
    visitor.need(Right::Jobs)?;
    let q = asked.q.trim().to_owned();
    if !q.is_empty()
        && q.chars().all(|c| c.is_ascii_digit())
        && let Ok(id) = q.parse::<JobId>()
        && app.look(app.reads.job(id)).await?.is_some()
    {
        return Ok(Redirect::to(&format!("/jobs/{id}")).into_response());
    }
    let jobs = jobs_like(&app, &q).await?;
    let shell = visitor.shell("jobs", false);
    Ok(render(&Found { shell, q, looked_at: LOOKED_AT, jobs: jobs.iter().map(JobLine::from).collect() }))
}

async fn jobs_like(app: &Served, q: &str) -> Result<Vec<JobRecord>, crate::serve::problem::Problem> {
    let mut found = Vec::new();
    for state in turno::State::ALL {
        let limit = limits::PAGE_ROWS_MAX;
        let filter = JobFilter { state: *state, queue: None, kind: None, before: None, limit };
        let is_wanted = |job: &JobRecord| job.kind == q || job.unique_key.as_deref() == Some(q);
        found.extend(app.newest(filter, LOOKED_AT, SHOWN, is_wanted).await?.0);
    }
    found.sort_by_key(|job| std::cmp::Reverse(job.id));
    found.dedup_by_key(|job| job.id);
    Ok(found)
}
