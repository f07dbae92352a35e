//! `turno job`: list, show and change jobs.

use std::io::Write;

use clap::builder::NonEmptyStringValueParser;
use turno::{BoxedBackend, CancelAnswer, JobFilter, JobId, JobRecord, JobsPage, KeySearch, State};

use crate::args::App;
use crate::exit::{Exit, Fault};
use crate::output::one_line;
use crate::parse::{show, show_instant};
use crate::views::{Attempt, Job, Refusal};

/// The commands of `turno job`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List jobs, newest first
    List(ListArgs),
    /// Show one job with its attempts and its refused results
    Show(ShowArgs),
    /// Cancel a waiting job; ask a running one to stop
    Cancel(CancelArgs),
    /// Run dead jobs again
    #[command(
        after_help = "Example:\n  turno job list --state dead --json | jq -r .id | xargs turno job retry"
    )]
    Retry(IdArgs),
    /// Change the priority of an unfinished job
    Reprioritize(ReprioritizeArgs),
    /// Remove the records of ended jobs
    Forget(IdArgs),
}

/// Options of `turno job list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turno job list --state dead --queue mail\n  \
    turno job list --key 'order 7'                       with this unique or idempotency key\n  \
    turno job list --json --limit 1000 --before 48213    the page below that id\n\n\
Ids and keys are found at any size. For the rest a page looks at 10,000 jobs of each state; if it stops\n\
before it is full, a line on standard error says where to go on.")]
pub struct ListArgs {
    /// Only in this state: scheduled, ready, running, succeeded, dead, cancelled; repeat for more
    #[arg(long)]
    state: Vec<State>,
    /// Only of this queue
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    queue: Option<String>,
    /// Only of this kind
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    kind: Option<String>,
    /// Only those with this unique key, and the job that this idempotency key stands for
    #[arg(long, conflicts_with_all = ["state", "kind"], value_parser = NonEmptyStringValueParser::new())]
    key: Option<String>,
    /// Continue below this id
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    before: Option<JobId>,
    /// At most this many jobs
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000), allow_negative_numbers = true)]
    limit: u32,
    /// Show payloads and results
    #[arg(long)]
    show_payload: bool,
}

/// Options of `turno job show`.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// The job
    #[arg(allow_negative_numbers = true)]
    id: JobId,
    /// Show payload, result and refused results
    #[arg(long)]
    show_payload: bool,
    /// Print a line for each change until the job has ended; exit status 1 unless it succeeded
    #[arg(long, conflicts_with = "show_payload")]
    follow: bool,
}

/// Options of `turno job cancel`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A running job is asked: its worker hears of it with the next heartbeat, may still complete it, \
and anything else ends as cancelled. With --force the job is revoked at once and its worker's result is refused.\n\
Exit status 3 if one of the jobs had already ended or does not exist."
)]
pub struct CancelArgs {
    /// The jobs
    #[arg(required = true, allow_negative_numbers = true)]
    ids: Vec<JobId>,
    /// Revoke running jobs at once
    #[arg(long)]
    force: bool,
}

/// The jobs of `turno job retry` and `forget`.
#[derive(Debug, clap::Args)]
pub struct IdArgs {
    /// The jobs
    #[arg(required = true, allow_negative_numbers = true)]
    ids: Vec<JobId>,
}

/// Options of `turno job reprioritize`.
#[derive(Debug, clap::Args)]
pub struct ReprioritizeArgs {
    /// The job
    #[arg(allow_negative_numbers = true)]
    id: JobId,
    /// -1000 (most urgent) to 1000
    #[arg(allow_negative_numbers = true)]
    priority: i32,
}

/// Runs the command.
pub async fn run(app: &mut App, command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::List(args) => list(app, args).await,
        Command::Show(args) => show_job(app, args).await,
        Command::Cancel(args) => cancel(app, args).await,
        Command::Retry(args) => retry(app, args).await,
        Command::Reprioritize(args) => reprioritize(app, args).await,
        Command::Forget(args) => forget(app, args).await,
    }
}

async fn list(app: &mut App, args: ListArgs) -> anyhow::Result<Exit> {
    let backend = app.connect().await?;
    let JobsPage { jobs, searched_to } = match &args.key {
        Some(key) => {
            let search = KeySearch {
                queue: args.queue.clone(),
                before: args.before,
                ..KeySearch::new(key, args.limit)
            };
            backend.find(&search).await?
        }
        None => in_states(&backend, &args).await?,
    };
    if let Some(id) = searched_to {
        // Not an answer, and so not on standard output.
        let _ = writeln!(std::io::stderr(), "turno: searched back to job {id}; --before {id} goes on");
    }
    if app.output.is_json() {
        for job in &jobs {
            app.output.document(&Job::new(job, args.show_payload))?;
        }
        return Ok(Exit::Ok);
    }
    let mut headings =
        vec!["ID", "QUEUE", "KIND", "STATE", "PRIORITY", "ATTEMPT", "FAILURES", "DUE", "ERROR"];
    if args.show_payload {
        headings.push("PAYLOAD");
    }
    let rows: Vec<Vec<String>> = jobs.iter().map(|job| list_row(job, args.show_payload)).collect();
    app.output.table(&headings, &rows)?;
    Ok(Exit::Ok)
}

/// A page of the jobs in these states, or in any.
async fn in_states(backend: &BoxedBackend, args: &ListArgs) -> anyhow::Result<JobsPage> {
    let states = if args.state.is_empty() { State::ALL } else { &args.state };
    let (mut jobs, mut searched_to): (Vec<JobRecord>, Option<JobId>) = Default::default();
    for state in states {
        let filter = JobFilter {
            state: *state,
            queue: args.queue.clone(),
            kind: args.kind.clone(),
            before: args.before,
            limit: args.limit,
        };
        let page = backend.jobs(&filter).await?;
        jobs.extend(page.jobs);
        searched_to = searched_to.max(page.searched_to);
    }
    // A job that changed its state between two of the queries may have come twice; the later answer is the fresher one.
    jobs.reverse();
    jobs.sort_by_key(|job| std::cmp::Reverse(job.id));
    jobs.dedup_by_key(|job| job.id);
    // What lies below the place where the search stopped in one of the states is for the next page.
    jobs.retain(|job| searched_to.is_none_or(|stop| job.id >= stop));
    jobs.truncate(args.limit as usize);
    Ok(JobsPage { searched_to: searched_to.filter(|_| jobs.len() < args.limit as usize), jobs })
}

fn list_row(job: &JobRecord, show_payload: bool) -> Vec<String> {
    let mut row = vec![job.id.to_string(), job.queue.clone(), job.kind.clone(), job.state.to_string()];
    row.extend([job.priority.to_string(), job.attempt.to_string()]);
    row.extend([format!("{}/{}", job.failures, job.max_attempts), show_instant(job.run_at)]);
    row.push(one_line(job.error.as_deref().unwrap_or_default(), 60));
    if show_payload {
        row.push(one_line(job.payload.as_deref().unwrap_or_default(), 200));
    }
    row
}

async fn show_job(app: &mut App, args: ShowArgs) -> anyhow::Result<Exit> {
    let backend = app.connect().await?;
    if args.follow {
        return super::follow::run(app, &backend, args.id).await;
    }
    let Some(job) = backend.job(args.id).await? else {
        return Err(Fault::new(Exit::Conflict, format!("there is no job {}", args.id)).into());
    };
    let attempts = backend.attempts(args.id).await?;
    let refused = backend.refused(Some(args.id), None, 100).await?;
    if app.output.is_json() {
        let mut document = serde_json::Map::new();
        let attempts: Vec<Attempt> = attempts.iter().map(Attempt::from).collect();
        let refused: Vec<Refusal> =
            refused.iter().map(|line| Refusal::new(line, args.show_payload)).collect();
        document.insert("attempts".into(), serde_json::to_value(attempts)?);
        document.insert("refused".into(), serde_json::to_value(refused)?);
        app.output.document(&Shown { job: Job::new(&job, args.show_payload), more: document })?;
        return Ok(Exit::Ok);
    }
    for (name, value) in facts(&job, args.show_payload) {
        app.output.line(&format!("{name:<18}{value}"))?;
    }
    if !attempts.is_empty() {
        app.output.line("")?;
        let rows: Vec<Vec<String>> = attempts.iter().map(attempt_row).collect();
        app.output
            .table(&["ATTEMPT", "ENDED BY", "CHARGED", "CLAIMED", "ENDED", "WORKER", "ERROR"], &rows)?;
    }
    if !refused.is_empty() {
        let n = refused.len();
        app.output.line(&format!("\n{n} refused results: turno refused --job {}", args.id))?;
    }
    Ok(Exit::Ok)
}

#[derive(serde::Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    job: Job<'a>,
    #[serde(flatten)]
    more: serde_json::Map<String, serde_json::Value>,
}

fn facts(job: &JobRecord, show_payload: bool) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("id", job.id.to_string()),
        ("queue", job.queue.clone()),
        ("kind", job.kind.clone()),
        ("state", job.state.to_string()),
        ("priority", job.priority.to_string()),
        ("attempt", job.attempt.to_string()),
        ("failures", format!("{} of {}", job.failures, job.max_attempts)),
        ("max run", show(job.max_run)),
        ("operation id", job.operation_id.to_string()),
        ("created at", show_instant(job.created_at)),
        ("due at", show_instant(job.run_at)),
    ];
    facts.extend(job.traceparent.clone().map(|trace| ("traceparent", trace)));
    let instants = [
        ("claimed at", job.claimed_at),
        ("lease until", job.lease_until),
        ("cancel asked at", job.cancel_requested_at),
        ("finished at", job.finished_at),
    ];
    facts.extend(instants.into_iter().filter_map(|(name, at)| at.map(|at| (name, show_instant(at)))));
    let texts = [("unique key", &job.unique_key), ("worker", &job.worker), ("error", &job.error)];
    facts.extend(
        texts.into_iter().filter_map(|(name, text)| text.as_ref().map(|text| (name, one_line(text, 2000)))),
    );
    for (name, text) in [("payload", &job.payload), ("result", &job.result)] {
        facts.push(match text {
            None => (name, "none".to_owned()),
            Some(text) if show_payload => (name, one_line(text, usize::MAX)),
            Some(text) => (name, format!("{} bytes (--show-payload shows them)", text.len())),
        });
    }
    facts
}

fn attempt_row(attempt: &turno::AttemptRecord) -> Vec<String> {
    let charged = if attempt.charged { "yes" } else { "no" };
    let mut row = vec![attempt.attempt.to_string(), attempt.verb.to_string(), charged.to_owned()];
    row.extend([show_instant(attempt.claimed_at), show_instant(attempt.ended_at)]);
    row.push(attempt.worker.clone().unwrap_or_default());
    row.push(one_line(attempt.error.as_deref().unwrap_or_default(), 80));
    row
}

async fn cancel(app: &mut App, args: CancelArgs) -> anyhow::Result<Exit> {
    let backend = app.connect().await?;
    let mut exit = Exit::Ok;
    for id in args.ids {
        let answer = backend.cancel(id, args.force).await?;
        let (word, state) = match answer {
            CancelAnswer::Cancelled => ("cancelled", State::Cancelled),
            CancelAnswer::Requested => ("requested", State::Running),
            CancelAnswer::TooLate(state) => ("too_late", state),
        };
        if word == "too_late" {
            exit = Exit::Conflict;
        }
        let document = serde_json::json!({ "id": id, "answer": word, "state": state });
        app.output.either(&document, |_| match answer {
            CancelAnswer::Cancelled => format!("job {id} is cancelled"),
            CancelAnswer::Requested => format!("job {id} is running; its worker is asked to stop"),
            CancelAnswer::TooLate(state) => format!("job {id} is too late to cancel: it is {state}"),
        })?;
    }
    Ok(exit)
}

async fn retry(app: &mut App, args: IdArgs) -> anyhow::Result<Exit> {
    let backend = app.connect().await?;
    for id in args.ids {
        backend.retry(id).await?;
        say(app, &backend, id, "is ready again").await?;
    }
    Ok(Exit::Ok)
}

async fn reprioritize(app: &mut App, args: ReprioritizeArgs) -> anyhow::Result<Exit> {
    let backend = app.connect().await?;
    backend.reprioritize(args.id, args.priority).await?;
    say(app, &backend, args.id, &format!("has priority {} now", args.priority)).await?;
    Ok(Exit::Ok)
}

async fn forget(app: &mut App, args: IdArgs) -> anyhow::Result<Exit> {
    let backend = app.connect().await?;
    for id in args.ids {
        backend.forget(id).await?;
        let document = serde_json::json!({ "id": id, "answer": "forgotten" });
        app.output.either(&document, |_| format!("job {id} is forgotten"))?;
    }
    Ok(Exit::Ok)
}

/// The job as it is now for `--json`, a sentence for people.
async fn say(app: &mut App, backend: &BoxedBackend, id: JobId, what: &str) -> anyhow::Result<()> {
    if !app.output.is_json() {
        return app.output.line(&format!("job {id} {what}"));
    }
    match backend.job(id).await? {
        Some(job) => app.output.document(&Job::new(&job, false)),
        None => app.output.document(&serde_json::json!({ "id": id, "state": null })),
    }
}
