//! Changes: a page that asks, and the form that does it. Both need the right; the form also needs the secret of the
//! login.

use askama::Template;
use axum::extract::rejection::FormRejection;
use axum::extract::{FromRequest, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use turno::{CancelAnswer, JobId, limits};

use super::show::escaped;
use super::visitor::{Shell, Visitor};
use super::{Answer, render};
use crate::serve::access::Right;
use crate::serve::extract::{Id, Name};
use crate::serve::problem::Problem;
use crate::serve::state::Shared;

/// A form; what it refuses is a page.
pub struct Form<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Form<T> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        match axum::Form::<T>::from_request(request, state).await {
            Ok(form) => Ok(Form(form.0)),
            Err(rejection) => Err(refused(&rejection)),
        }
    }
}

fn refused(rejection: &FormRejection) -> Response {
    super::problem(&Problem::new(rejection.status(), "invalid_form", rejection.body_text()))
}

/// A form without a field of its own.
#[derive(Debug, Deserialize)]
pub struct Plain {
    pub(super) form_token: String,
}

/// The form of a cancel.
#[derive(Debug, Deserialize)]
pub struct Cancel {
    form_token: String,
    #[serde(default)]
    force: bool,
}

/// The form of a new priority.
#[derive(Debug, Deserialize)]
pub struct Priority {
    form_token: String,
    priority: i32,
}

/// The form of many retries; without `sure` it is asked once more.
#[derive(Debug, Deserialize)]
pub struct RetryMany {
    form_token: String,
    ids: String,
    #[serde(default)]
    sure: bool,
}

#[derive(Template, Default)]
#[template(path = "confirm.html")]
pub(super) struct Confirm {
    pub(super) shell: Option<Shell>,
    pub(super) question: String,
    pub(super) explanation: String,
    pub(super) action: String,
    pub(super) verb: String,
    pub(super) back: String,
    pub(super) form_token: String,
    pub(super) hidden: Vec<(&'static str, String)>,
    pub(super) asks_force: bool,
    pub(super) asks_priority: bool,
    pub(super) priority: i32,
}

impl Confirm {
    fn of_job(visitor: &Visitor, id: JobId, what: &str, verb: &str, explanation: &str) -> Self {
        Confirm {
            shell: visitor.shell("jobs", false),
            question: format!("{verb} job {id}?"),
            explanation: explanation.to_owned(),
            action: format!("/jobs/{id}/{what}"),
            verb: verb.to_owned(),
            back: format!("/jobs/{id}"),
            form_token: visitor.form_token(),
            ..Confirm::default()
        }
    }

    fn of_queue(visitor: &Visitor, queue: &str, what: &str, verb: &str, explanation: &str) -> Self {
        let href = format!("/queues/{}", escaped(queue));
        Confirm {
            shell: visitor.shell("queues", false),
            question: format!("{verb} the queue {queue}?"),
            explanation: explanation.to_owned(),
            action: format!("{href}/{what}"),
            verb: verb.to_owned(),
            back: href,
            form_token: visitor.form_token(),
            ..Confirm::default()
        }
    }
}

fn to_job(id: JobId) -> Response {
    Redirect::to(&format!("/jobs/{id}")).into_response()
}

fn to_queue(queue: &str) -> Response {
    Redirect::to(&format!("/queues/{}", escaped(queue))).into_response()
}

/// Asks whether to cancel.
pub async fn ask_cancel(visitor: Visitor, Id(id): Id) -> Answer {
    visitor.need(Right::Cancel)?;
    let explanation = "A waiting job is cancelled at once. A running one is asked: its worker may still complete it, \
                       and anything else ends as cancelled.";
    let page = Confirm::of_job(&visitor, id, "cancel", "Cancel", explanation);
    Ok(render(&Confirm { asks_force: true, ..page }))
}

/// Cancels.
pub async fn cancel(
    State(app): State<Shared>,
    visitor: Visitor,
    Id(id): Id,
    Form(form): Form<Cancel>,
) -> Answer {
    visitor.need(Right::Cancel)?;
    visitor.check_form(&form.form_token)?;
    match app.ask_for_job(app.backend.cancel(id, form.force)).await? {
        CancelAnswer::Cancelled | CancelAnswer::Requested => Ok(to_job(id)),
        CancelAnswer::TooLate(state) => {
            let detail = format!("Job {id} is {state} already.");
            Err(Problem::new(StatusCode::CONFLICT, "too_late", detail).into())
        }
    }
}

/// Asks whether to retry.
pub async fn ask_retry(visitor: Visitor, Id(id): Id) -> Answer {
    visitor.need(Right::Retry)?;
    let explanation = "It is due now, with its failures forgotten and the same operation id.";
    Ok(render(&Confirm::of_job(&visitor, id, "retry", "Retry", explanation)))
}

/// Retries.
pub async fn retry(
    State(app): State<Shared>,
    visitor: Visitor,
    Id(id): Id,
    Form(form): Form<Plain>,
) -> Answer {
    visitor.need(Right::Retry)?;
    visitor.check_form(&form.form_token)?;
    app.ask_for_job(app.backend.retry(id)).await?;
    Ok(to_job(id))
}

/// Retries a group of dead jobs, after it was asked once more.
pub async fn retry_many(State(app): State<Shared>, visitor: Visitor, Form(form): Form<RetryMany>) -> Answer {
    visitor.need(Right::Retry)?;
    visitor.check_form(&form.form_token)?;
    let ids = form.ids.split_whitespace().map(str::parse).collect::<Result<Vec<JobId>, _>>()?;
    if ids.is_empty() || ids.len() > limits::PAGE_ROWS_MAX as usize {
        return Err(
            Problem::invalid(format!("One to 1000 jobs are retried at once, not {}.", ids.len())).into()
        );
    }
    if !form.sure {
        return Ok(render(&Confirm {
            shell: visitor.shell("dead", false),
            question: format!("Retry {} jobs?", ids.len()),
            explanation:
                "They are due now, with their failures forgotten. One that is no longer dead, or whose \
                          unique key is taken, stays as it is."
                    .into(),
            action: "/dead/retry".into(),
            verb: "Retry".into(),
            back: "/dead".into(),
            form_token: visitor.form_token(),
            hidden: vec![("ids", form.ids), ("sure", "true".into())],
            ..Confirm::default()
        }));
    }
    for id in ids {
        match app.ask_for_job(app.backend.retry(id)).await {
            Err(problem) if matches!(problem.status(), StatusCode::CONFLICT | StatusCode::NOT_FOUND) => {}
            answer => answer?,
        }
    }
    Ok(Redirect::to("/dead").into_response())
}

/// Asks for a priority.
pub async fn ask_priority(State(app): State<Shared>, visitor: Visitor, Id(id): Id) -> Answer {
    visitor.need(Right::Prioritize)?;
    let job = app.look(app.reads.job(id)).await?;
    let job = job.ok_or_else(|| Problem::not_found(format!("There is no job {id}.")))?;
    let page = Confirm::of_job(&visitor, id, "priority", "Reprioritize", "Its due time stays.");
    Ok(render(&Confirm { asks_priority: true, priority: job.priority, ..page }))
}

/// Changes the priority.
pub async fn reprioritize(
    State(app): State<Shared>,
    visitor: Visitor,
    Id(id): Id,
    Form(form): Form<Priority>,
) -> Answer {
    visitor.need(Right::Prioritize)?;
    visitor.check_form(&form.form_token)?;
    app.ask_for_job(app.backend.reprioritize(id, form.priority)).await?;
    Ok(to_job(id))
}

/// Asks whether to pause.
pub async fn ask_pause(visitor: Visitor, Name(queue): Name) -> Answer {
    visitor.need(Right::Pause)?;
    let explanation = "No further claim takes a job of it. Jobs that run go on.";
    Ok(render(&Confirm::of_queue(&visitor, &queue, "pause", "Pause", explanation)))
}

/// Pauses.
pub async fn pause(
    State(app): State<Shared>,
    visitor: Visitor,
    Name(queue): Name,
    Form(form): Form<Plain>,
) -> Answer {
    visitor.need(Right::Pause)?;
    visitor.check_form(&form.form_token)?;
    app.ask(app.backend.pause(&queue)).await?;
    Ok(to_queue(&queue))
}

/// Asks whether to resume.
pub async fn ask_resume(visitor: Visitor, Name(queue): Name) -> Answer {
    visitor.need(Right::Pause)?;
    Ok(render(&Confirm::of_queue(&visitor, &queue, "resume", "Resume", "Claims take its jobs again.")))
}

/// Resumes.
pub async fn resume(
    State(app): State<Shared>,
    visitor: Visitor,
    Name(queue): Name,
    Form(form): Form<Plain>,
) -> Answer {
    visitor.need(Right::Pause)?;
    visitor.check_form(&form.form_token)?;
    app.ask(app.backend.resume(&queue)).await?;
    Ok(to_queue(&queue))
}
