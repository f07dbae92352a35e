//! `turno queue`: list, pause, resume and set up queues (rules P5, P6).

use std::time::Duration;

use turno::{Keep, QueueSettings, SettingsChange};

use crate::args::App;
use crate::exit::{Exit, Fault};
use crate::parse;
use crate::views::Settings;

/// The commands of `turno queue`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the settings: the defaults first, then every queue
    List,
    /// Let no further claim take a job of this queue
    Pause(NameArgs),
    /// End a pause
    Resume(NameArgs),
    /// Change settings of a queue, or of the defaults
    Set(Box<SetArgs>),
}

/// A queue.
#[derive(Debug, clap::Args)]
pub struct NameArgs {
    /// The queue
    queue: String,
}

/// Options of `turno queue set`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  turno queue set mail --max-attempts 5 --retry-base 10s --retry-cap 1h\n  \
    turno queue set --defaults --keep-succeeded 7d --keep-dead forever"
)]
pub struct SetArgs {
    /// The queue
    #[arg(required_unless_present = "defaults", conflicts_with = "defaults")]
    queue: Option<String>,
    /// Change the installation's defaults, which hold for every queue without settings of its own
    #[arg(long)]
    defaults: bool,
    /// Free text for people
    #[arg(long)]
    description: Option<String>,
    /// Each such interval of waiting lifts a job by one level of priority; `strict` for never
    #[arg(long, value_name = "DURATION|strict")]
    aging: Option<String>,
    /// Failure budget of jobs that name none
    #[arg(long)]
    max_attempts: Option<u32>,
    /// Time per attempt of jobs that name none
    #[arg(long, value_parser = parse::duration)]
    max_run: Option<Duration>,
    /// First retry delay
    #[arg(long, value_parser = parse::duration)]
    retry_base: Option<Duration>,
    /// Longest retry delay
    #[arg(long, value_parser = parse::duration)]
    retry_cap: Option<Duration>,
    /// Largest failure budget that a producer may ask for
    #[arg(long)]
    max_attempts_limit: Option<u32>,
    /// Longest time per attempt that a producer may ask for
    #[arg(long, value_parser = parse::duration)]
    max_run_limit: Option<Duration>,
    /// How far ahead a due time may lie; `none` for any distance
    #[arg(long, value_name = "DURATION|none")]
    run_at_horizon: Option<String>,
    /// How long succeeded jobs are kept; 0s keeps only a receipt
    #[arg(long, value_parser = parse::keep, value_name = "DURATION|forever")]
    keep_succeeded: Option<Keep>,
    /// How long cancelled jobs are kept
    #[arg(long, value_parser = parse::keep, value_name = "DURATION|forever")]
    keep_cancelled: Option<Keep>,
    /// How long dead jobs are kept
    #[arg(long, value_parser = parse::keep, value_name = "DURATION|forever")]
    keep_dead: Option<Keep>,
    /// How long receipts are kept, by which a repeat is told from theft; 0s turns them off
    #[arg(long, value_parser = parse::duration)]
    receipts: Option<Duration>,
}

/// Runs the command.
pub async fn run(app: &mut App, command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::List => list(app).await,
        Command::Pause(args) => {
            app.connect().await?.pause(&args.queue).await?;
            let document = serde_json::json!({ "queue": args.queue, "paused": true });
            app.output.either(&document, |_| format!("queue {} is paused", args.queue))?;
            Ok(Exit::Ok)
        }
        Command::Resume(args) => {
            app.connect().await?.resume(&args.queue).await?;
            let document = serde_json::json!({ "queue": args.queue, "paused": false });
            app.output.either(&document, |_| format!("queue {} is resumed", args.queue))?;
            Ok(Exit::Ok)
        }
        Command::Set(args) => set(app, *args).await,
    }
}

async fn list(app: &mut App) -> anyhow::Result<Exit> {
    let queues = app.connect().await?.queue_list().await?;
    if app.output.is_json() {
        for queue in &queues {
            app.output.document(&Settings::from(queue))?;
        }
        return Ok(Exit::Ok);
    }
    let headings = [
        "QUEUE",
        "PAUSED",
        "PRIORITY",
        "MAX ATTEMPTS",
        "MAX RUN",
        "RETRY",
        "KEEP SUCCEEDED",
        "CANCELLED",
        "DEAD",
        "RECEIPTS",
        "DESCRIPTION",
    ];
    let rows: Vec<Vec<String>> = queues.iter().map(row).collect();
    app.output.table(&headings, &rows)?;
    Ok(Exit::Ok)
}

fn row(queue: &QueueSettings) -> Vec<String> {
    let keep = |keep| match keep {
        Keep::For(duration) => parse::show(duration),
        Keep::Forever => "forever".to_owned(),
    };
    let aging = |aging| format!("aging {}", parse::show(aging));
    vec![
        queue.queue.clone().unwrap_or_else(|| "(defaults)".to_owned()),
        queue.paused_at.map_or_else(|| "-".to_owned(), parse::show_instant),
        queue.aging.map_or_else(|| "strict".to_owned(), aging),
        queue.max_attempts.to_string(),
        parse::show(queue.max_run),
        format!("{} .. {}", parse::show(queue.retry_base), parse::show(queue.retry_cap)),
        keep(queue.keep_succeeded),
        keep(queue.keep_cancelled),
        keep(queue.keep_dead),
        parse::show(queue.receipts),
        crate::output::one_line(queue.description.as_deref().unwrap_or_default(), 60),
    ]
}

async fn set(app: &mut App, args: SetArgs) -> anyhow::Result<Exit> {
    let option = |name: &str, word, text: Option<&String>| {
        text.map(|text| parse::duration_or(word, text))
            .transpose()
            .map_err(|why| Fault::usage(format!("--{name}: {why}")))
    };
    let change = SettingsChange {
        aging: option("aging", "strict", args.aging.as_ref())?,
        run_at_horizon: option("run-at-horizon", "none", args.run_at_horizon.as_ref())?,
        description: args.description,
        max_attempts: args.max_attempts,
        max_run: args.max_run,
        retry_base: args.retry_base,
        retry_cap: args.retry_cap,
        max_attempts_limit: args.max_attempts_limit,
        max_run_limit: args.max_run_limit,
        keep_succeeded: args.keep_succeeded,
        keep_cancelled: args.keep_cancelled,
        keep_dead: args.keep_dead,
        receipts: args.receipts,
    };
    let settings = app.connect().await?.queue_set(args.queue.as_deref(), &change).await?;
    if app.output.is_json() {
        app.output.document(&Settings::from(&settings))?;
    } else {
        app.output.line(&row_as_text(&settings))?;
    }
    Ok(Exit::Ok)
}

fn row_as_text(settings: &QueueSettings) -> String {
    let row = row(settings);
    let name = if settings.queue.is_some() { format!("queue {}", row[0]) } else { "defaults".to_owned() };
    format!(
        "{name}: priority {}, max attempts {}, max run {}, retry {}, keep succeeded {}, cancelled {}, dead {}, \
         receipts {}",
        row[2], row[3], row[4], row[5], row[6], row[7], row[8], row[9]
    )
}
