//! `turno schedule`: what becomes a job again and again (rules K1..K8). Workers fire it; nothing here runs on.

use std::time::Duration;

use time::OffsetDateTime;
use turno::calendar::Calendar;
use turno::{Missed, PutAnswer, Schedule, ScheduleRecord, Schedules, limits};

use crate::args::App;
use crate::exit::{Exit, Fault};
use crate::parse;
use crate::views;

/// Schedules of one page that is asked for.
const PAGE_ROWS: u32 = 100;
/// Most instants that `next` shows.
const NEXT_MAX: u16 = 1000;

const ADD_HELP: &str = "\
The expression is minute, hour, day of month, month, day of week, or six fields
with seconds first; names, ranges, steps, L, W, # and @daily are understood. It
is about the wall clock of --zone. A time that the clock skips runs at the first
instant after the gap; a time that comes twice runs the first time; where the
hour is *, it runs whenever the clock shows a time of it.

Adding the same again changes nothing, so a deployment may repeat it. `turno
work` and the library fire what is due; one worker, of whatever queue, is
enough.

Examples:
  turno schedule add nightly --cron '0 6 * * *' --zone Europe/Berlin --queue reports --kind nightly
  turno schedule add ping --cron '*/15 * * * *' --queue health --kind ping --missed skip
  turno schedule add bill --cron '0 9 L * *' --queue billing --kind close --missed all:12 \\
      --payload '{\"month_of\": \"{instant}\"}'";

/// The commands of `turno schedule`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Create a schedule, or change it; the same again changes nothing
    Add(Box<AddArgs>),
    /// List the schedules by name
    List(ListArgs),
    /// Fire nothing of a schedule until it is resumed
    Pause(NameArgs),
    /// End a pause; nothing is fired for its time
    Resume(NameArgs),
    /// Remove a schedule; its jobs stay
    Remove(NameArgs),
    /// Show the next instants of a schedule, or of an expression that is none yet
    Next(NextArgs),
}

/// A schedule.
#[derive(Debug, clap::Args)]
pub struct NameArgs {
    /// Its name
    name: String,
}

/// Options of `turno schedule list`.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Show payloads
    #[arg(long)]
    show_payload: bool,
}

/// Options of `turno schedule add`.
#[derive(Debug, clap::Args)]
#[command(after_help = ADD_HELP)]
pub struct AddArgs {
    /// Its name
    name: String,
    /// When, such as '30 2 * * MON-FRI'
    #[arg(long, value_name = "EXPRESSION")]
    cron: String,
    /// The time zone whose wall clock the expression is about, by its IANA name
    #[arg(long, default_value = "UTC", value_name = "ZONE")]
    zone: String,
    /// The queue of its jobs
    #[arg(long)]
    queue: String,
    /// The kind of its jobs
    #[arg(long)]
    kind: String,
    /// Their payload, a JSON document; each {instant} in it becomes the run's instant
    #[arg(long, default_value = "null", value_name = "JSON", allow_hyphen_values = true)]
    payload: String,
    /// What becomes of instants that nobody fired in time: skip, latest, or all:N for the newest N
    #[arg(long, default_value = "latest", value_name = "POLICY")]
    missed: Missed,
    /// Their priority, -1000 (most urgent) to 1000
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// Their failure budget; the queue's default if not given
    #[arg(long)]
    max_attempts: Option<u32>,
    /// Time that one attempt may take; the queue's default if not given
    #[arg(long, value_parser = parse::duration, value_name = "DURATION")]
    max_run: Option<Duration>,
    /// At most one of its jobs is unfinished: an instant that comes meanwhile makes none
    #[arg(long, value_name = "KEY")]
    unique_key: Option<String>,
}

/// Options of `turno schedule next`.
#[derive(Debug, clap::Args)]
pub struct NextArgs {
    /// The schedule
    #[arg(required_unless_present = "cron", conflicts_with_all = ["cron", "zone"])]
    name: Option<String>,
    /// An expression instead of a schedule; needs no database
    #[arg(long, value_name = "EXPRESSION")]
    cron: Option<String>,
    /// The expression's time zone; UTC if not given
    #[arg(long, requires = "cron", value_name = "ZONE")]
    zone: Option<String>,
    /// How many instants
    #[arg(short = 'n', long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=i64::from(NEXT_MAX)))]
    count: u16,
    /// Behind this instant instead of now
    #[arg(long, value_parser = parse::instant, value_name = "RFC3339")]
    after: Option<OffsetDateTime>,
}

/// Runs the command.
pub async fn run(app: &mut App, command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Add(args) => add(app, *args).await,
        Command::List(args) => list(app, args).await,
        Command::Next(args) => next(app, args).await,
        Command::Pause(NameArgs { name }) => {
            app.connect().await?.schedule_pause(&name).await?;
            answer(app, &name, "paused")
        }
        Command::Resume(NameArgs { name }) => {
            Schedules::new(app.connect().await?).resume(&name).await?;
            answer(app, &name, "resumed")
        }
        Command::Remove(NameArgs { name }) => {
            app.connect().await?.schedule_remove(&name).await?;
            answer(app, &name, "removed")
        }
    }
}

fn answer(app: &mut App, name: &str, what: &str) -> anyhow::Result<Exit> {
    let document = serde_json::json!({ "schedule": name, "answer": what });
    app.output.either(&document, |_| format!("schedule {name} is {what}"))?;
    Ok(Exit::Ok)
}

async fn add(app: &mut App, args: AddArgs) -> anyhow::Result<Exit> {
    let schedule = Schedule {
        name: args.name,
        cron: args.cron,
        zone: args.zone,
        queue: args.queue,
        kind: args.kind,
        payload: args.payload,
        priority: args.priority,
        max_attempts: args.max_attempts,
        max_run: args.max_run,
        unique_key: args.unique_key,
        missed: args.missed,
    };
    let schedules = Schedules::new(app.connect().await?);
    let done = schedules.put(&schedule).await?;
    let record = schedules.get(&schedule.name).await?;
    let document = serde_json::json!({ "answer": done, "schedule": views::Schedule::new(&record, false) });
    let what = match done {
        PutAnswer::Created => "created",
        PutAnswer::Changed => "changed",
        PutAnswer::Unchanged => "unchanged",
    };
    let next = record.next_at.filter(|_| record.paused_at.is_none()).map(|at| show_in(at, &schedule.zone));
    app.output.either(&document, |_| {
        let next = next.map(|next| format!("; next at {next}")).unwrap_or_default();
        format!("schedule {} is {what}{next}", schedule.name)
    })?;
    Ok(Exit::Ok)
}

async fn list(app: &mut App, args: ListArgs) -> anyhow::Result<Exit> {
    let backend = app.connect().await?;
    let now = backend.schedule_due(1).await?.now;
    let mut rows = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = backend.schedule_list(None, after.as_deref(), PAGE_ROWS).await?;
        for record in &page {
            if app.output.is_json() {
                app.output.document(&views::Schedule::new(record, args.show_payload))?;
            } else {
                rows.push(row(record, now));
            }
        }
        match page.last() {
            Some(last) if page.len() == PAGE_ROWS as usize => after = Some(last.schedule.name.clone()),
            _ => break,
        }
    }
    if !app.output.is_json() {
        app.output
            .table(&["NAME", "CRON", "ZONE", "QUEUE", "KIND", "MISSED", "NEXT", "LAST", "LAST JOB"], &rows)?;
    }
    Ok(Exit::Ok)
}

fn row(record: &ScheduleRecord, now: OffsetDateTime) -> Vec<String> {
    let schedule = &record.schedule;
    let next = match (record.paused_at, record.next_at) {
        (Some(_), _) => "paused".to_owned(),
        (None, None) => "never".to_owned(),
        (None, Some(at)) if at == record.done_until => "at the next tick".to_owned(),
        (None, Some(at)) if at <= now => format!("due since {}", parse::show_instant(at)),
        (None, Some(at)) => parse::show_instant(at),
    };
    vec![
        crate::output::one_line(&schedule.name, 60),
        schedule.cron.clone(),
        schedule.zone.clone(),
        schedule.queue.clone(),
        schedule.kind.clone(),
        schedule.missed.to_string(),
        next,
        record.last_at.map_or_else(|| "-".to_owned(), parse::show_instant),
        record.last_job.map_or_else(|| "-".to_owned(), |job| job.to_string()),
    ]
}

async fn next(app: &mut App, args: NextArgs) -> anyhow::Result<Exit> {
    let (cron, zone, now) = match (args.name, args.cron) {
        (Some(name), _) => {
            let backend = app.connect().await?;
            let now = backend.schedule_due(1).await?.now;
            let record = Schedules::new(backend).get(&name).await?;
            (record.schedule.cron, record.schedule.zone, now)
        }
        (None, Some(cron)) => {
            (cron, args.zone.unwrap_or_else(|| "UTC".to_owned()), OffsetDateTime::now_utc())
        }
        (None, None) => return Err(Fault::usage("give the name of a schedule, or --cron").into()),
    };
    if cron.len() > limits::SCHEDULE_CRON_BYTES_MAX {
        return Err(
            Fault::usage(format!("--cron has more than {} bytes", limits::SCHEDULE_CRON_BYTES_MAX)).into()
        );
    }
    let calendar = Calendar::new(&cron, &zone)?;
    let first = args.after.unwrap_or(now);
    let Some(next) = calendar.next_after(first) else {
        let first = parse::show_instant(first);
        return Err(Fault::usage(format!("the cron expression {cron:?} never comes after {first}")).into());
    };
    let instants = std::iter::successors(Some(next), |at| calendar.next_after(*at));
    for at in instants.take(usize::from(args.count)) {
        let local = show_in(at, &zone);
        let document = serde_json::json!({ "at": parse::show_instant(at), "local": local });
        app.output.either(&document, |_| format!("{}  {local}", parse::show_instant(at)))?;
    }
    Ok(Exit::Ok)
}

/// The instant on the wall clock of its zone.
fn show_in(at: OffsetDateTime, zone: &str) -> String {
    turno::calendar::show_in(at, zone).unwrap_or_else(|_| parse::show_instant(at))
}
