//! `turno stats`: the state of each queue (rule V1).

use std::time::Duration;

use turno::{Count, QueueStats};

use crate::args::App;
use crate::exit::Exit;
use crate::parse;
use crate::views::Stats;

/// Options of `turno stats`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A count that ends with + is \"at least\". START is from due to claimed, FINISH from first due \
to ended, as median / 99th percentile over the window."
)]
pub struct Args {
    /// Only this queue; repeat for more
    #[arg(long)]
    queue: Vec<String>,
    /// How much history the ended jobs, retries and times cover
    #[arg(long, default_value = "1h", value_parser = parse::duration)]
    window: Duration,
}

/// Prints a line per queue.
pub async fn run(app: &mut App, args: Args) -> anyhow::Result<Exit> {
    let mut stats = app.connect().await?.stats(args.window).await?;
    if !args.queue.is_empty() {
        stats.retain(|stats| args.queue.contains(&stats.queue));
    }
    if app.output.is_json() {
        for stats in &stats {
            app.output.document(&Stats::new(stats, args.window))?;
        }
        return Ok(Exit::Ok);
    }
    let headings = [
        "QUEUE",
        "OLDEST DUE",
        "READY",
        "SCHEDULED",
        "RUNNING",
        "EXPIRED",
        "SUCCEEDED",
        "DEAD",
        "CANCELLED",
        "RETRIES",
        "REFUSED",
        "START",
        "FINISH",
    ];
    let rows: Vec<Vec<String>> = stats.iter().map(row).collect();
    app.output.table(&headings, &rows)?;
    Ok(Exit::Ok)
}

fn row(stats: &QueueStats) -> Vec<String> {
    let count = |count: &Count| format!("{}{}", count.n, if count.capped { "+" } else { "" });
    let time = |duration: Option<Duration>| duration.map_or_else(|| "-".to_owned(), parse::show);
    let pair = |p50, p99| match (p50, p99) {
        (None, None) => "-".to_owned(),
        (p50, p99) => format!("{} / {}", time(p50), time(p99)),
    };
    let paused = if stats.paused { " (paused)" } else { "" };
    let mut row = vec![format!("{}{paused}", stats.queue), time(stats.oldest_due_age)];
    row.extend([&stats.ready, &stats.scheduled, &stats.running, &stats.expired].map(count));
    row.extend([&stats.succeeded, &stats.dead, &stats.cancelled, &stats.retries, &stats.refused].map(count));
    row.extend([pair(stats.start_p50, stats.start_p99), pair(stats.finish_p50, stats.finish_p99)]);
    row
}
