//! The overview, and one queue with its plots and settings.

use std::time::Duration;

use askama::Template;
use axum::extract::State;
use turno::{Keep, QueueSettings, QueueStats};

use super::plot::Plot;
use super::show::{count, escaped, pair, time};
use super::visitor::{Shell, Visitor};
use super::{Answer, render};
use crate::parse;
use crate::serve::access::Right;
use crate::serve::extract::Name;
use crate::serve::history::{SAMPLES_MAX, Sample};
use crate::serve::problem::Problem;
use crate::serve::state::{Served, Shared};

/// The history that numbers cover.
const WINDOW: Duration = Duration::from_secs(3600);
/// Most queues on the overview.
const QUEUES_MAX: usize = 500;
/// The width of a plot in samples, at least: a young history does not fill it.
const PLACES_MIN: usize = 30;
/// From which age on the oldest due job is worth a colour.
const LATE: Duration = Duration::from_secs(60);

/// A queue as both pages show it.
struct QueueView {
    name: String,
    href: String,
    list_href: String,
    dead_href: String,
    paused: bool,
    oldest: String,
    is_late: bool,
    ready: String,
    scheduled: String,
    running: String,
    expired: String,
    has_expired: bool,
    succeeded: String,
    dead: String,
    has_dead: bool,
    cancelled: String,
    retries: String,
    refused: String,
    has_refused: bool,
    start: String,
    finish: String,
    depth: Plot,
    rate: Plot,
    failures: Plot,
}

impl QueueView {
    fn new(stats: &QueueStats, samples: &[Sample]) -> Self {
        let name = escaped(&stats.queue);
        let plot = |class, what, value: fn(&Sample) -> f64| {
            let values: Vec<f64> = samples.iter().map(value).collect();
            Plot::new(class, what, &values, values.len().clamp(PLACES_MIN, SAMPLES_MAX))
        };
        QueueView {
            name: stats.queue.clone(),
            href: format!("/queues/{name}"),
            list_href: format!("/jobs?queue={name}"),
            dead_href: format!("/dead?queue={name}"),
            paused: stats.paused,
            oldest: time(stats.oldest_due_age),
            is_late: stats.oldest_due_age.is_some_and(|age| age > LATE),
            ready: count(&stats.ready),
            scheduled: count(&stats.scheduled),
            running: count(&stats.running),
            expired: count(&stats.expired),
            has_expired: stats.expired.n > 0,
            succeeded: count(&stats.succeeded),
            dead: count(&stats.dead),
            has_dead: stats.dead.n > 0,
            cancelled: count(&stats.cancelled),
            retries: count(&stats.retries),
            refused: count(&stats.refused),
            has_refused: stats.refused.n > 0,
            start: pair(stats.start_p50, stats.start_p99),
            finish: pair(stats.finish_p50, stats.finish_p99),
            depth: plot("depth", "Ready jobs", |sample| sample.ready),
            rate: plot("rate", "Jobs ended per second", |sample| sample.ended_per_s),
            failures: plot("failures", "Failed attempts per second", |sample| sample.failed_per_s),
        }
    }
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    shell: Option<Shell>,
    queues: Vec<QueueView>,
    left_out: usize,
}

/// All queues, the one whose oldest due job has waited longest first.
pub async fn overview(State(app): State<Shared>, visitor: Visitor) -> Answer {
    visitor.need(Right::Stats)?;
    let mut stats = app.look(app.reads.stats(WINDOW)).await?;
    stats.sort_by(crate::serve::api::oldest_first);
    let left_out = stats.len().saturating_sub(QUEUES_MAX);
    stats.truncate(QUEUES_MAX);
    let queues = stats.iter().map(|stats| view(&app, stats)).collect();
    Ok(render(&Overview { shell: visitor.shell("queues", true), queues, left_out }))
}

fn view(app: &Served, stats: &QueueStats) -> QueueView {
    QueueView::new(stats, &app.history.of(&stats.queue))
}

#[derive(Template)]
#[template(path = "queue.html")]
struct QueuePage {
    shell: Option<Shell>,
    queue: QueueView,
    may_pause: bool,
    settings: Vec<(&'static str, String)>,
}

/// One queue.
pub async fn queue(State(app): State<Shared>, visitor: Visitor, Name(name): Name) -> Answer {
    visitor.need(Right::Stats)?;
    let stats = app.look(app.reads.stats(WINDOW)).await?;
    let stats = stats.iter().find(|stats| stats.queue == name);
    let stats = stats.ok_or_else(|| Problem::not_found(format!("There is no queue {name:?}.")))?;
    let all = app.look(app.reads.queue_list()).await?;
    let own = all.iter().find(|settings| settings.queue.as_deref() == Some(&*name));
    let settings = own.or_else(|| all.iter().find(|settings| settings.queue.is_none()));
    Ok(render(&QueuePage {
        shell: visitor.shell("queues", true),
        queue: view(&app, stats),
        may_pause: visitor.may(Right::Pause),
        settings: settings.map(shown_settings).unwrap_or_default(),
    }))
}

fn shown_settings(settings: &QueueSettings) -> Vec<(&'static str, String)> {
    let keep = |keep: Keep| match keep {
        Keep::For(time) => parse::show(time),
        Keep::Forever => "for ever".to_owned(),
    };
    let optional = |time: Option<Duration>, none: &str| time.map_or_else(|| none.to_owned(), parse::show);
    vec![
        ("Description", settings.description.clone().unwrap_or_else(|| "–".to_owned())),
        ("Priority", optional(settings.aging, "strict")),
        ("Max attempts", settings.max_attempts.to_string()),
        ("Max run", parse::show(settings.max_run)),
        (
            "Retry delay",
            format!("{} to {}", parse::show(settings.retry_base), parse::show(settings.retry_cap)),
        ),
        ("Keep succeeded", keep(settings.keep_succeeded)),
        ("Keep cancelled", keep(settings.keep_cancelled)),
        ("Keep dead", keep(settings.keep_dead)),
        ("Receipts", parse::show(settings.receipts)),
    ]
}
