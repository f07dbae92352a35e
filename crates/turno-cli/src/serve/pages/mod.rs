//! Pages for people: written by the server, complete without a script, one style sheet. They refuse to change anything
//! by a link: each change is asked for once more, in a form that carries a secret of the login.

mod actions;
mod assets;
mod dead;
mod job;
mod jobs;
mod login;
mod plot;
mod queues;
mod refused;
mod schedules;
mod search;
mod show;
mod visitor;

use askama::Template;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::header;
use axum::middleware::map_response;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};

use self::visitor::Shell;
use super::extract::FORM_BYTES_MAX;
use super::problem::Problem;
use super::state::Shared;

/// All pages.
pub fn router() -> Router<Shared> {
    Router::new()
        .route("/", get(queues::overview))
        .route("/queues/{queue}", get(queues::queue))
        .route("/queues/{queue}/pause", get(actions::ask_pause).post(actions::pause))
        .route("/queues/{queue}/resume", get(actions::ask_resume).post(actions::resume))
        .route("/jobs", get(jobs::list))
        .route("/jobs/{id}", get(job::show))
        .route("/jobs/{id}/cancel", get(actions::ask_cancel).post(actions::cancel))
        .route("/jobs/{id}/retry", get(actions::ask_retry).post(actions::retry))
        .route("/jobs/{id}/priority", get(actions::ask_priority).post(actions::reprioritize))
        .route("/dead", get(dead::groups))
        .route("/dead/retry", post(actions::retry_many))
        .route("/refused", get(refused::list))
        .route("/schedules", get(schedules::list))
        .route("/schedules/{name}/pause", get(schedules::ask_pause).post(schedules::pause))
        .route("/schedules/{name}/resume", get(schedules::ask_resume).post(schedules::resume))
        .route("/schedules/{name}/remove", get(schedules::ask_remove).post(schedules::remove))
        .route("/search", get(search::find))
        .route("/login", get(login::ask).post(login::begin))
        .route("/logout", post(login::end))
        .route("/assets/{name}", get(assets::asset))
        .layer(DefaultBodyLimit::max(FORM_BYTES_MAX))
        .layer(map_response(as_page))
}

/// What an extractor refuses is a page here, too.
async fn as_page(response: Response) -> Response {
    match response.extensions().get::<Problem>() {
        Some(refused) => problem(refused),
        None => response,
    }
}

/// What a page answers.
type Answer = Result<Response, Failure>;

/// Why a page could not be shown; it becomes a page itself.
struct Failure(Problem);

impl<E: Into<Problem>> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure(error.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        problem(&self.0)
    }
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'a> {
    shell: Option<Shell>,
    title: &'a str,
    detail: &'a str,
    /// Whether the same page may show something else in a while.
    may_repeat: bool,
}

/// An error as a page.
pub fn problem(problem: &Problem) -> Response {
    let mut headers = problem.headers();
    let may_repeat = headers.contains_key(header::RETRY_AFTER);
    let title = if may_repeat { "Not available right now" } else { problem.title() };
    let page = ProblemPage { shell: None, title, detail: problem.detail(), may_repeat };
    // Browsers would ask for a password in a window of their own.
    headers.remove(header::WWW_AUTHENTICATE);
    (problem.status(), headers, render(&page)).into_response()
}

fn render(page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => Html(text).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page cannot be written");
            Problem::new(
                axum::http::StatusCode::INTERNAL_SERVER_ERROR,
                "internal",
                "the page cannot be written",
            )
            .into_response()
        }
    }
}
