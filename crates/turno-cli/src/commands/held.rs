//! `turno held`: what a token holds (rule C5), for a worker's claim whose answer was lost.

use turno::Token;

use crate::args::App;
use crate::exit::{Exit, Fault};
use crate::parse::show_instant;
use crate::views::Held;

/// Options of `turno held`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The token of the claim, a UUID
    token: String,
    /// Show payloads
    #[arg(long)]
    show_payload: bool,
}

/// Prints the jobs that the token holds.
pub async fn run(app: &mut App, args: Args) -> anyhow::Result<Exit> {
    // The token is a secret, so the error does not repeat it.
    let uuid = args.token.parse().map_err(|_| Fault::usage("the token is not a UUID"))?;
    let jobs = app.connect().await?.held(Token::new(uuid)?).await?;
    if app.output.is_json() {
        for job in &jobs {
            app.output.document(&Held::new(job, args.show_payload))?;
        }
        return Ok(Exit::Ok);
    }
    let mut headings = vec!["ID", "ATTEMPT", "QUEUE", "KIND", "LEASE UNTIL"];
    if args.show_payload {
        headings.push("PAYLOAD");
    }
    let rows: Vec<Vec<String>> = jobs
        .iter()
        .map(|job| {
            let mut row = vec![job.proof.job.to_string(), job.proof.attempt.to_string(), job.queue.clone()];
            row.extend([job.kind.clone(), show_instant(job.lease_until)]);
            if args.show_payload {
                row.push(crate::output::one_line(&job.payload, 200));
            }
            row
        })
        .collect();
    app.output.table(&headings, &rows)?;
    Ok(Exit::Ok)
}
