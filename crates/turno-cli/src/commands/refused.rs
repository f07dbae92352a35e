//! `turno refused`: the ledger of refused results (rule S7).

use turno::JobId;

use crate::args::App;
use crate::exit::Exit;
use crate::output::one_line;
use crate::parse::show_instant;
use crate::views::Refusal;

/// Options of `turno refused`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only of this job
    #[arg(long, value_name = "ID")]
    job: Option<JobId>,
    /// Continue below this line of the ledger
    #[arg(long, value_name = "LINE")]
    before: Option<i64>,
    /// At most this many lines, newest first
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Show the refused results and errors
    #[arg(long)]
    show_payload: bool,
}

/// Prints a page of the ledger.
pub async fn run(app: &mut App, args: Args) -> anyhow::Result<Exit> {
    let lines = app.connect().await?.refused(args.job, args.before, args.limit).await?;
    if app.output.is_json() {
        for line in &lines {
            app.output.document(&Refusal::new(line, args.show_payload))?;
        }
        return Ok(Exit::Ok);
    }
    let mut headings = vec!["LINE", "JOB", "ATTEMPT", "VERB", "TIMES", "LAST", "WORKER", "REASON"];
    if args.show_payload {
        headings.push("DETAIL");
    }
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            let mut row = vec![line.id.to_string(), line.job.to_string(), line.attempt.to_string()];
            row.extend([line.verb.to_string(), line.times.to_string(), show_instant(line.last_at)]);
            row.extend([line.worker.clone().unwrap_or_default(), line.reason.clone()]);
            if args.show_payload {
                row.push(one_line(line.detail.as_deref().unwrap_or_default(), 200));
            }
            row
        })
        .collect();
    app.output.table(&headings, &rows)?;
    Ok(Exit::Ok)
}
