//! Dead jobs, grouped by what killed them. It refuses to read them all: the newest thousand tell what goes wrong now.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use serde::Deserialize;
use turno::{JobFilter, JobId, JobRecord};

use super::show::{escaped, instant, line};
use super::visitor::{Shell, Visitor};
use super::{Answer, render};
use crate::serve::access::Right;
use crate::serve::extract::Query;
use crate::serve::state::Shared;

/// Dead jobs that are read.
const LOOKED_AT: u32 = 1000;
/// Jobs of a group that are named.
const NAMED: usize = 8;

/// Of which queue.
#[derive(Debug, Deserialize)]
pub struct Of {
    #[serde(default)]
    queue: String,
}

struct Group {
    queue: String,
    queue_href: String,
    kind: String,
    error: String,
    n: usize,
    last: String,
    newest: Vec<JobId>,
    more: usize,
    /// Separated by spaces, for the form.
    ids: String,
}

#[derive(Template)]
#[template(path = "dead.html")]
struct DeadPage {
    shell: Option<Shell>,
    queue: String,
    queue_parameter: String,
    groups: Vec<Group>,
    looked_at: usize,
    is_full: bool,
    may_retry: bool,
    form_token: String,
}

/// The groups, largest first.
pub async fn groups(State(app): State<Shared>, visitor: Visitor, Query(of): Query<Of>) -> Answer {
    visitor.need(Right::Story)?;
    let filter = JobFilter {
        state: turno::State::Dead,
        queue: Some(of.queue.clone()).filter(|queue| !queue.is_empty()),
        kind: None,
        before: None,
        limit: LOOKED_AT,
    };
    let page = app.newest(filter).await?;
    let parameter = |queue: &str| format!("&queue={}", escaped(queue));
    Ok(render(&DeadPage {
        shell: visitor.shell("dead", true),
        queue_parameter: if of.queue.is_empty() { String::new() } else { parameter(&of.queue) },
        queue: of.queue,
        groups: grouped(&page.jobs),
        looked_at: page.jobs.len(),
        is_full: page.next(LOOKED_AT).is_some(),
        may_retry: visitor.may(Right::Retry),
        form_token: visitor.form_token(),
    }))
}

fn grouped(jobs: &[JobRecord]) -> Vec<Group> {
    let mut by_error: BTreeMap<(&str, &str, String), Vec<&JobRecord>> = BTreeMap::new();
    for job in jobs {
        let error = likeness(job.error.as_deref().unwrap_or("no error was recorded"));
        by_error.entry((&job.queue, &job.kind, error)).or_default().push(job);
    }
    let mut groups: Vec<Group> = by_error
        .into_iter()
        .map(|((queue, kind, _), jobs)| {
            let ended = jobs.iter().filter_map(|job| job.finished_at).max();
            let ids: Vec<String> = jobs.iter().map(|job| job.id.to_string()).collect();
            Group {
                queue: queue.to_owned(),
                queue_href: format!("/queues/{}", escaped(queue)),
                kind: kind.to_owned(),
                error: line(jobs[0].error.as_deref().or(Some("no error was recorded"))),
                n: jobs.len(),
                last: ended.map(instant).unwrap_or_default(),
                newest: jobs.iter().take(NAMED).map(|job| job.id).collect(),
                more: jobs.len().saturating_sub(NAMED),
                ids: ids.join(" "),
            }
        })
        .collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.n));
    groups
}

/// The first line of an error without its numbers, so that `timeout after 31 ms` and `... 32 ms` are one.
fn likeness(error: &str) -> String {
    let first = error.lines().next().unwrap_or_default();
    let mut like = String::new();
    for c in first.chars().take(200) {
        if !c.is_ascii_digit() {
            like.push(c);
        } else if !like.ends_with('#') {
            like.push('#');
        }
    }
    like
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_differ_in_numbers_are_alike() {
        assert_eq!(likeness("timeout after 31 ms\nat x"), likeness("timeout after 1024 ms"));
        assert_ne!(likeness("timeout"), likeness("refused"));
        assert_eq!(likeness(""), "");
    }
}
