//! `turno torture`: a fault test against the user's own database. It refuses to do anything itself: `turno_torture` does.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use turno::Engine;
use turno_torture::{Fault, Options};

use crate::args::App;
use crate::exit::Exit;
use crate::parse;

const HELP: &str = "\
Starts worker processes and kills, stops and cuts them off from the database
while jobs run, as a plan says that is drawn from the seed, and checks all the
while that the queue keeps what docs/guarantees.md promises. Use a database
that you can spare: the load is real, and the jobs of a run that found
something stay in it.

Faults: kill, pause (SIGSTOP past the lease), drop-reply (the answer is lost
after the commit), cut (round trip n), restart (--own-server, --restart-with),
terminate (sessions ended, no connection left), clock (one worker an hour
ahead; needs libfaketime), slow (delays, a black hole), hold (transactions
left open). What a database cannot have done to it is reported as not run.

Workers reach a server through a proxy that reads what passes, so without TLS.
The URL's user locks rows of turno's tables and ends sessions.

Exit status 1 if any check failed: then the seed, the job's whole story and
the command that repeats the run are printed.

Examples:
  turno torture --db postgres://app@db/scratch --seconds 60 --seed 7
  turno torture --own-server=mariadb
  turno torture --db mariadb://root@a/ --node mariadb://root@b/ \\
    --restart-with 'scripts/galera-private bounce /tmp/galera 3'";

/// Options of `turno torture`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// How long faults are injected
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// How many worker processes
    #[arg(long, default_value_t = 8)]
    workers: usize,
    /// What the plan is drawn from; a new one each time if not given
    #[arg(long)]
    seed: Option<u64>,
    /// Which faults, with commas between them; all by default
    #[arg(long, value_delimiter = ',', value_parser = fault, value_name = "FAULT")]
    faults: Vec<Fault>,
    /// How long workers hold jobs without a sign of life
    #[arg(long, default_value = "1500ms", value_parser = parse::duration, value_name = "DURATION")]
    lease: Duration,
    /// Start a server of its own (postgres, mysql, mariadb), which may then be killed
    #[arg(
        long,
        value_name = "ENGINE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "postgres",
        value_parser = engine
    )]
    own_server: Option<Engine>,
    /// Another node of the same database; workers are spread over all of them
    #[arg(long = "node", value_name = "URL")]
    nodes: Vec<String>,
    /// A command that kills the server or a node and starts it again, away for $TURNO_DOWN_MS ms
    #[arg(long, value_name = "COMMAND")]
    restart_with: Option<String>,
    /// Leave the jobs in the database even if nothing was found
    #[arg(long)]
    keep: bool,
    /// Write the report to this file as a page
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

fn fault(text: &str) -> Result<Fault, String> {
    text.parse().map_err(|error: turno::Error| error.to_string())
}

fn engine(text: &str) -> Result<Engine, String> {
    let known = [Engine::Postgres, Engine::Mysql, Engine::Mariadb];
    let found = known.into_iter().find(|engine| engine.as_str() == text);
    found.ok_or_else(|| format!("{text:?} is not one of postgres, mysql, mariadb"))
}

/// Runs the test.
pub async fn run(app: &mut App, args: Args) -> anyhow::Result<Exit> {
    let seed = args.seed.unwrap_or_else(|| u64::from(new_seed()));
    let mut options = Options::new(std::env::current_exe()?, seed);
    if args.own_server.is_none() {
        options.url = Some(app.location()?.url().to_owned());
    }
    options.seconds = args.seconds;
    options.workers = args.workers;
    options.lease = args.lease;
    options.own_server = args.own_server;
    options.nodes = args.nodes;
    options.restart_with = args.restart_with;
    options.keep = args.keep;
    if !args.faults.is_empty() {
        options.faults = args.faults;
    }
    // Progress is for people, answers are for programs.
    let report = turno_torture::run(options, |line| {
        let _ = writeln!(std::io::stderr(), "{line}");
    })
    .await?;
    if let Some(path) = args.report {
        std::fs::write(path, report.html())?;
    }
    app.output.either(&report, |report| report.text().trim_end().to_owned())?;
    Ok(if report.is_clean() { Exit::Ok } else { Exit::BadNews })
}

/// Short enough to be typed again.
fn new_seed() -> u32 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.subsec_nanos() ^ std::process::id().rotate_left(16)) % 1_000_000
}
