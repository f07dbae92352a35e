//! One field for an id, a unique or idempotency key, or a kind. Ids and keys are found at any size; of a kind it shows the
//! newest jobs, says how far it looked for them, and leads on. It refuses to read more than a bounded number of jobs.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect};
use futures_util::future::try_join_all;
use serde::Deserialize;
use turno::{JobFilter, JobId, JobRecord, JobsPage, KeySearch};

use super::show::{JobLine, escaped};
use super::visitor::{Shell, Visitor};
use super::{Answer, render};
use crate::serve::access::Right;
use crate::serve::extract::Query;
use crate::serve::problem::Problem;
use crate::serve::state::{Served, Shared};

/// Jobs with a key on a page.
const KEY_ROWS: u32 = 50;
/// Jobs of a kind that are shown of each state.
const KIND_ROWS: u32 = 20;

/// What to search for.
#[derive(Debug, Deserialize)]
pub struct Asked {
    #[serde(default)]
    q: String,
    before: Option<JobId>,
}

/// Where to go on in one state.
struct More {
    state: &'static str,
    href: String,
    /// The last id that was looked at, if the search stopped there.
    searched_to: Option<String>,
}

#[derive(Template)]
#[template(path = "search.html")]
struct Found {
    shell: Option<Shell>,
    q: String,
    by_key: Vec<JobLine>,
    older_keys: Option<String>,
    by_kind: Vec<JobLine>,
    more: Vec<More>,
}

/// What was found; the job itself if it was nothing but an id.
pub async fn find(State(app): State<Shared>, visitor: Visitor, Query(asked): Query<Asked>) -> Answer {
    visitor.need(Right::Jobs)?;
    let q = asked.q.trim().to_owned();
    if q.is_empty() {
        return Err(Problem::invalid("Search for an id, a key or a kind.").into());
    }
    let search = KeySearch { before: asked.before, ..KeySearch::new(&q, KEY_ROWS) };
    let mut keys = app.with_key(&search).await?;
    if let Some(job) = of_id(&app, &q).await?
        && asked.before.is_none()
    {
        if keys.jobs.is_empty() {
            return Ok(Redirect::to(&format!("/jobs/{}", job.id)).into_response());
        }
        keys.jobs.insert(0, job);
    }
    let (by_kind, more) = if asked.before.is_none() { of_kind(&app, &q).await? } else { Default::default() };
    Ok(render(&Found {
        shell: visitor.shell("jobs", false),
        older_keys: keys.next(KEY_ROWS).map(|next| format!("/search?q={}&before={next}", escaped(&q))),
        q,
        by_key: keys.jobs.iter().map(JobLine::from).collect(),
        by_kind: by_kind.iter().map(JobLine::from).collect(),
        more,
    }))
}

async fn of_id(app: &Served, q: &str) -> Result<Option<JobRecord>, Problem> {
    match q.parse::<JobId>() {
        Ok(id) if q.chars().all(|c| c.is_ascii_digit()) => app.look(app.reads.job(id)).await,
        _ => Ok(None),
    }
}

/// The newest jobs of a kind in every state, and where there may be more.
async fn of_kind(app: &Served, q: &str) -> Result<(Vec<JobRecord>, Vec<More>), Problem> {
    // A key may be longer than any name.
    if turno::check_name("kind", q).is_err() {
        return Ok(Default::default());
    }
    let (mut found, mut more) = (Vec::new(), Vec::new());
    // At the same time, as far as there are connections: each may look at ten thousand jobs.
    let looks = turno::State::ALL
        .iter()
        .map(|state| app.newest(JobFilter { kind: Some(q.to_owned()), ..JobFilter::new(*state, KIND_ROWS) }));
    let pages: Vec<JobsPage> = try_join_all(looks).await?;
    for (state, mut page) in turno::State::ALL.iter().zip(pages) {
        if let Some(next) = page.next(KIND_ROWS) {
            more.push(More {
                state: state.as_str(),
                href: format!("/jobs?state={state}&kind={}&before={next}", escaped(q)),
                searched_to: page.searched_to.map(|id| id.to_string()),
            });
        }
        found.append(&mut page.jobs);
    }
    found.sort_by_key(|job| std::cmp::Reverse(job.id));
    found.dedup_by_key(|job| job.id);
    Ok((found, more))
}
