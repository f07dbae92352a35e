//! The ledger of refused results, newest first, paged by key.

use askama::Template;
use axum::extract::State;
use serde::Deserialize;
use turno::RefusedRecord;

use super::show::instant;
use super::visitor::{Shell, Visitor};
use super::{Answer, render};
use crate::serve::access::Right;
use crate::serve::extract::Query;
use crate::serve::state::Shared;

/// Lines on a page.
const PAGE_ROWS: u32 = 50;

/// Where to go on.
#[derive(Debug, Deserialize)]
pub struct Page {
    before: Option<i64>,
}

/// A line of the table; see its headings.
pub struct RefusedLine {
    pub job: String,
    pub attempt: i64,
    pub verb: &'static str,
    pub worker: String,
    pub reason: String,
    pub owner: String,
    pub times: i64,
    pub first: String,
    pub last: String,
}

impl From<&RefusedRecord> for RefusedLine {
    fn from(line: &RefusedRecord) -> Self {
        let state = line.state.map_or("gone", turno::State::as_str);
        let owner = match (&line.owner, line.owner_attempt) {
            (Some(owner), Some(attempt)) => format!("{owner}, attempt {attempt} ({state})"),
            _ => state.to_owned(),
        };
        RefusedLine {
            job: line.job.to_string(),
            attempt: line.attempt,
            verb: line.verb.as_str(),
            worker: line.worker.clone().unwrap_or_default(),
            reason: line.reason.clone(),
            owner,
            times: line.times,
            first: instant(line.first_at),
            last: instant(line.last_at),
        }
    }
}

#[derive(Template)]
#[template(path = "refused.html")]
struct RefusedPage {
    shell: Option<Shell>,
    refused: Vec<RefusedLine>,
    next_href: Option<String>,
}

/// The ledger.
pub async fn list(State(app): State<Shared>, visitor: Visitor, Query(from): Query<Page>) -> Answer {
    visitor.need(Right::Story)?;
    let lines = app.look(app.reads.refused(None, from.before, PAGE_ROWS)).await?;
    let next = lines.last().map(|line| line.id).filter(|_| lines.len() == PAGE_ROWS as usize);
    Ok(render(&RefusedPage {
        shell: visitor.shell("refused", from.before.is_none()),
        refused: lines.iter().map(RefusedLine::from).collect(),
        next_href: next.map(|next| format!("/refused?before={next}")),
    }))
}
