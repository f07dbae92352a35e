//! What every request works with. It refuses to let a request wait for the database for ever.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::{Semaphore, watch};
use turno::prometheus::Metrics;
use turno::{BoxedBackend, JobFilter, JobsPage, KeySearch};

use super::access::Access;
use super::connections::Connections;
use super::problem::Problem;
use super::upkeep::Upkeep;

/// How long the database has to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Rows that are read at once where payloads are not shown.
pub const ROWS_AT_ONCE: u32 = 100;
/// Most claims that wait for jobs at the same time.
pub const WAITING_CLAIMS_MAX: usize = 500;
/// Most requests with a large body at the same time.
pub const LARGE_BODIES_MAX: usize = 4;

/// The state of the server, shared by all requests.
pub type Shared = Arc<Served>;

/// See [`Shared`].
pub struct Served {
    /// The database.
    pub backend: BoxedBackend,
    /// The same database over connections of its own, so that no question waits for a change that is blocked.
    pub reads: BoxedBackend,
    /// What `/metrics` answers.
    pub metrics: Metrics,
    /// Who may do what.
    pub access: Access,
    /// Who is logged in at the pages.
    pub sessions: super::sessions::Sessions,
    /// What the plots show.
    pub history: super::history::History,
    /// Reaps and prunes while somebody works over HTTP.
    pub upkeep: Upkeep,
    /// Turns of claims that wait.
    pub waiting: Semaphore,
    /// Turns of requests with large bodies.
    pub large_bodies: Semaphore,
    /// The connections of the port.
    pub connections: Arc<Connections>,
    /// Whether `/metrics` is answered without a token.
    pub public_metrics: bool,
    /// Becomes true when the server is told to end.
    pub closing: watch::Receiver<bool>,
}

impl Served {
    /// The answer of the database to a question, or a problem. What is not found is then the database.
    pub async fn look<T>(&self, call: impl Future<Output = turno::Result<T>>) -> Result<T, Problem> {
        match tokio::time::timeout(ANSWER_WITHIN, call).await {
            Ok(answer) => answer.map_err(|error| found_no_database(Problem::of_question(error))),
            Err(_) => Err(Problem::unavailable(silence())),
        }
    }

    /// The answer of the database to a change that is about no single job, or a problem. What is not found is then the
    /// database.
    pub async fn ask<T>(&self, call: impl Future<Output = turno::Result<T>>) -> Result<T, Problem> {
        self.ask_for_job(call).await.map_err(found_no_database)
    }

    /// The answer of the database to a change of one job, or a problem. Nobody knows what became of a change that was
    /// not answered in time.
    pub async fn ask_for_job<T>(&self, call: impl Future<Output = turno::Result<T>>) -> Result<T, Problem> {
        let answer = tokio::time::timeout(ANSWER_WITHIN, call).await;
        let answer = answer.unwrap_or_else(|_| {
            Err(turno::Error::new(turno::ErrorKind::Unavailable, silence()).with_outcome_unknown())
        });
        answer.map_err(Problem::from)
    }

    /// A page of jobs without their payloads and results. They are read a hundred at a time: a thousand of the largest at
    /// once would be a gigabyte.
    pub async fn newest(&self, mut filter: JobFilter) -> Result<JobsPage, Problem> {
        let (wanted, mut found) = (filter.limit, JobsPage::default());
        loop {
            filter.limit = ROWS_AT_ONCE.min(wanted - found.jobs.len() as u32);
            let mut page = self.look(self.reads.jobs(&filter)).await?;
            page.jobs.iter_mut().for_each(|job| (job.payload, job.result) = (None, None));
            let next = page.next(filter.limit);
            found.jobs.append(&mut page.jobs);
            found.searched_to = page.searched_to;
            if next.is_none() || page.searched_to.is_some() || found.jobs.len() >= wanted as usize {
                return Ok(found);
            }
            filter.before = next;
        }
    }

    /// A page of the jobs with a key, like [`newest`](Served::newest).
    pub async fn with_key(&self, search: &KeySearch) -> Result<JobsPage, Problem> {
        let mut page = self.look(self.reads.find(search)).await?;
        page.jobs.iter_mut().for_each(|job| (job.payload, job.result) = (None, None));
        Ok(page)
    }
}

fn silence() -> String {
    format!("the database did not answer within {ANSWER_WITHIN:?}")
}

fn found_no_database(problem: Problem) -> Problem {
    match problem.status() {
        StatusCode::NOT_FOUND => Problem::unavailable(problem.detail()),
        _ => problem,
    }
}
