//! The command line as clap sees it: what is global, and which command leads to which module.

use clap::{CommandFactory, Parser, Subcommand};
use turno::BoxedBackend;

use crate::bench;
use crate::commands::{
    audit, completions, doctor, enqueue, held, job, maintain, man, migrate, queue, refused, schedule, sql,
    stats, torture, work,
};
use crate::db::Location;
use crate::exit::{Exit, Fault};
use crate::output::Output;
use crate::run;
use crate::serve;
use crate::top;

const EXAMPLES: &str = "\
Examples:
  ls | turno run --db jobs.db -- wc -c               work lines, and survive a crash
  turno migrate --db postgres://app@db/app           create the schema
  turno enqueue --queue mail --kind welcome --payload '{\"user\":7}'
  turno work --queue mail --kind 'welcome=./send-welcome'
  turno job list --state dead --json
";

/// A durable job queue that lives inside your SQL database.
#[derive(Debug, Parser)]
#[command(name = "turno", version, max_term_width = 110, after_help = EXAMPLES)]
#[command(after_long_help = format!("{EXAMPLES}\n{}", crate::exit::HELP), arg_required_else_help = true)]
pub struct Cli {
    /// What holds for every command.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, clap::Args)]
pub struct Global {
    /// The database: a path (SQLite) or a URL (sqlite:, postgres:). A URL with a password is better put into TURNO_URL,
    /// which other users of the machine cannot see
    #[arg(long, global = true, env = "TURNO_URL", hide_env_values = true, value_name = "PATH|URL")]
    pub db: Option<String>,
    /// Answer in JSON: one document, or one per line for lists. Errors are a JSON line on standard error
    #[arg(long, global = true)]
    pub json: bool,
}

/// Everything turno does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command for each line of standard input: an xargs that survives a crash
    Run(Box<run::Args>),
    /// Work the jobs of queues, running a command per kind, until stopped
    Work(work::Args),
    /// Enqueue one job, or many from NDJSON
    Enqueue(enqueue::Args),
    /// List, show and change jobs
    #[command(subcommand)]
    Job(job::Command),
    /// List, pause and set up queues
    #[command(subcommand)]
    Queue(queue::Command),
    /// Let jobs recur: by cron expressions, in time zones, without a leader
    #[command(subcommand)]
    Schedule(schedule::Command),
    /// Serve metrics, an HTTP API and pages for people
    Serve(serve::Args),
    /// Watch the queues in a terminal
    Top(top::Args),
    /// The state of each queue
    Stats(stats::Args),
    /// Prove that no row is out of reach of every rule; exit status 1 if one is
    Audit,
    /// Look at server, schema, rights and queues for what is wrong, and say what to do
    Doctor(doctor::Args),
    /// Remove records whose time is over
    Prune(maintain::PruneArgs),
    /// End leases that have expired
    Reap(maintain::ReapArgs),
    /// Make due jobs ready
    Promote(maintain::PromoteArgs),
    /// Show the ledger of refused results
    Refused(refused::Args),
    /// Show the jobs that a claim's token holds
    Held(held::Args),
    /// Measure this installation, and the same raw work without turno
    Bench(bench::Args),
    /// Create or update the schema
    Migrate(migrate::Args),
    /// Print the statements or the routine of one operation
    Sql(sql::Args),
    /// Print a script of completions for a shell
    Completions(completions::Args),
    /// Write the manual pages into a folder
    Man(man::Args),
    /// Prove it on your own database: kill, stop and cut off workers, and check every promise
    Torture(torture::Args),
    /// A worker that is going to be killed; started by `torture`
    #[command(name = turno_torture::WORKER_COMMAND, hide = true)]
    TortureWorker,
    /// Kills what a dead run left behind; started by `run` and `work`
    #[command(name = "__guard", hide = true)]
    Guard,
}

/// What a command works with.
pub struct App {
    /// Where answers go.
    pub output: Output,
    db: Option<String>,
}

impl App {
    /// From the global options.
    pub fn new(global: &Global) -> Self {
        App { output: Output::new(global.json), db: global.db.clone() }
    }

    /// Where the database is; an error if nobody said.
    pub fn location(&self) -> anyhow::Result<Location> {
        match &self.db {
            Some(db) => Location::parse(db),
            None => Err(Fault::usage("no database: give --db PATH|URL, or set TURNO_URL").into()),
        }
    }

    /// What was given as the database, for what must not be shown of it.
    pub fn url(&self) -> Option<&str> {
        self.db.as_deref()
    }

    /// Connects to a database that exists.
    pub async fn connect(&self) -> anyhow::Result<BoxedBackend> {
        self.location()?.connect().await
    }
}

/// Runs the command.
pub async fn dispatch(app: &mut App, command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Run(args) => run::run(app, *args).await,
        Command::Work(args) => work::run(app, args).await,
        Command::Enqueue(args) => enqueue::run(app, args).await,
        Command::Job(command) => job::run(app, command).await,
        Command::Queue(command) => queue::run(app, command).await,
        Command::Schedule(command) => schedule::run(app, command).await,
        Command::Serve(args) => serve::run(app, args).await,
        Command::Top(args) => top::run(app, args).await,
        Command::Stats(args) => stats::run(app, args).await,
        Command::Audit => audit::run(app).await,
        Command::Doctor(args) => doctor::run(app, args).await,
        Command::Prune(args) => maintain::prune(app, args).await,
        Command::Reap(args) => maintain::reap(app, args).await,
        Command::Promote(args) => maintain::promote(app, args).await,
        Command::Refused(args) => refused::run(app, args).await,
        Command::Held(args) => held::run(app, args).await,
        Command::Bench(args) => bench::run(app, args).await,
        Command::Migrate(args) => migrate::run(app, args).await,
        Command::Sql(args) => sql::run(app, args).await,
        Command::Completions(args) => completions::run(args, &mut Cli::command()),
        Command::Man(args) => man::run(args, Cli::command()),
        Command::Guard => Ok(crate::child::guard()),
        Command::Torture(args) => torture::run(app, args).await,
        // Has a runtime of its own, and so never comes here.
        Command::TortureWorker => Ok(Exit::Internal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
