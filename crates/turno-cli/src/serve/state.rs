//! What every request works with. It refuses to let a request wait for the database for ever.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::{Semaphore, watch};
use turno::prometheus::Metrics;
use turno::{BoxedBackend, JobFilter, JobRecord};

use super::access::Access;
use super::problem::Problem;
use super::upkeep::Upkeep;

/// How long the database has to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Rows that are read at once where payloads are not shown.
const ROWS_AT_ONCE: u32 = 100;
/// Most claims that wait for jobs at the same time.
pub const WAITING_CLAIMS_MAX: usize = 500;

/// The state of the server, shared by all requests.
pub type Shared = Arc<Served>;

/// See [`Shared`].
pub struct Served {
    /// The database.
    pub backend: BoxedBackend,
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
    /// Whether `/metrics` is answered without a token.
    pub public_metrics: bool,
    /// Becomes true when the server is told to end.
    pub closing: watch::Receiver<bool>,
}

impl Served {
    /// The answer of the database to what is about no single job, or a problem. What is not found is then the database.
    pub async fn ask<T>(&self, call: impl Future<Output = turno::Result<T>>) -> Result<T, Problem> {
        self.ask_for_job(call).await.map_err(|problem| match problem.status() {
            StatusCode::NOT_FOUND => Problem::unavailable(problem.detail()),
            _ => problem,
        })
    }

    /// The answer of the database to a change of one job, or a problem.
    pub async fn ask_for_job<T>(&self, call: impl Future<Output = turno::Result<T>>) -> Result<T, Problem> {
        match tokio::time::timeout(ANSWER_WITHIN, call).await {
            Ok(answer) => answer.map_err(Problem::from),
            Err(_) => {
                Err(Problem::unavailable(format!("the database did not answer within {ANSWER_WITHIN:?}")))
            }
        }
    }

    /// The newest jobs of a filter without payloads and results, which are read a hundred at a time: a thousand of the
    /// largest at once would be a gigabyte.
    pub async fn newest(&self, filter: JobFilter, most: usize) -> Result<Vec<JobRecord>, Problem> {
        let mut filter = JobFilter { limit: ROWS_AT_ONCE, ..filter };
        let mut found = Vec::new();
        loop {
            let mut jobs = self.ask(self.backend.jobs(&filter)).await?;
            for job in &mut jobs {
                (job.payload, job.result) = (None, None);
            }
            let is_last = jobs.len() < ROWS_AT_ONCE as usize;
            filter.before = jobs.last().map(|job| job.id);
            found.append(&mut jobs);
            if is_last || found.len() >= most {
                found.truncate(most);
                return Ok(found);
            }
        }
    }
}
