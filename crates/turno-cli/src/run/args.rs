//! The options of `turno run`, and what its help promises.

use std::ffi::OsString;
use std::time::Duration;

use turno::limits;

use crate::child::Limits;
use crate::exit::Fault;
use crate::parse;

const HELP: &str = "\
Lines:
  Each line of standard input is one job. LF ends a line; a CR before it is
  dropped; empty lines are skipped. With -0 NUL ends a line and every other
  byte belongs to it. Lines need not be UTF-8. The command gets the line and
  an LF (with -0: and a NUL) on its standard input, and {} in its arguments is
  replaced by the line. TURNO_JOB_ID, TURNO_ATTEMPT and TURNO_OPERATION_ID
  (the same in every attempt) are in its environment; so is TRACEPARENT, if the
  run was started with one.
  With --ndjson each line is an object with payload, priority, run_at,
  unique_key, max_attempts, max_run_ms and traceparent; the payload takes the
  place of the line. A run ends when every line has ended, so a later run_at is waited for.
  A line is known by the run's name, its bytes, and which of several equal
  lines it is; never by its number. An edited or reordered input only adds
  what is new.

After a crash:
  Run the same command again, with the same input. Lines that are done are not
  run again. Lines that were at work are run again when their lease (--lease)
  has ended, even if that was their last attempt. No command of the killed run
  is still at work then: commands and what they started are killed with turno,
  unless they left their process group (setsid, a shell with job control). A
  line may run more than once, but never twice at the same time, so its output
  may appear more than once, too. If turno itself is stopped (Ctrl-Z) for
  longer than its lease, its commands are killed.

Records:
  They are kept in the queue run:NAME until --forget. The same name with
  another command is an error; --again forgets the records and starts over. A
  command that exits with a status other than 0 is run again with a growing
  delay, at most --max-attempts times; then its line is dead, which
  --retry-dead undoes. When a command ends, what is left of its process group
  is killed.

Output:
  What a command writes is kept until it ends and then passed on, so the
  output of two lines never mixes. Progress and the summary go to standard
  error; with --json the summary is a JSON line, the last one on standard
  error.

Exit status: 0 all lines are done, 1 some are dead or cancelled, 2 bad input
or usage, 130 or 143 stopped by a signal (the same command goes on); `turno
--help` lists the others.

Examples:
  ls *.wav | turno run --db jobs.db -j 4 -- flac --best {}
  turno run --db jobs.db --name thumbs --timeout 30s -- ./thumbnail.sh < urls.txt
  find . -name '*.log' -print0 | turno run --db jobs.db -0 -- gzip {}
  turno run --db jobs.db --retry-dead -- ./thumbnail.sh < urls.txt";

/// Options of `turno run`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD", required_unless_present = "forget")]
    pub command: Vec<OsString>,
    /// The name of the run; one database can hold many
    #[arg(long, default_value = "default")]
    pub name: String,
    /// How many commands run at the same time; the number of processors if not given
    #[arg(short, long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub jobs: Option<u16>,
    /// How often a line is tried before it is dead
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::ATTEMPTS_MAX)))]
    pub max_attempts: u32,
    /// The delay before the first retry, doubled with every further one
    #[arg(long, default_value = "1s", value_parser = parse::duration, value_name = "DURATION")]
    pub retry_base: Duration,
    /// The longest delay before a retry
    #[arg(long, default_value = "1m", value_parser = parse::duration, value_name = "DURATION")]
    pub retry_cap: Duration,
    /// Stop a command that takes longer; no limit if not given
    #[arg(long, value_parser = parse::duration, value_name = "DURATION")]
    pub timeout: Option<Duration>,
    /// The time between SIGTERM and SIGKILL for a command that is stopped
    #[arg(long, default_value = "5s", value_parser = parse::duration, value_name = "DURATION")]
    pub kill_after: Duration,
    /// How long after a crash a line that was at work is left alone
    #[arg(long, default_value = "5s", value_parser = parse::duration, value_name = "DURATION")]
    pub lease: Duration,
    /// Lines end with NUL
    #[arg(short = '0', long, conflicts_with = "ndjson")]
    pub null: bool,
    /// Lines are JSON objects that say payload, priority, run_at, unique_key, max_attempts, max_run_ms, traceparent
    #[arg(long)]
    pub ndjson: bool,
    /// Run the dead lines again
    #[arg(long)]
    pub retry_dead: bool,
    /// Forget the records of this name and start over
    #[arg(long)]
    pub again: bool,
    /// Forget the records of this name, and do nothing else
    #[arg(long, conflicts_with_all = ["again", "retry_dead", "command"])]
    pub forget: bool,
    /// No progress and no failures on standard error, only the summary
    #[arg(short, long)]
    pub quiet: bool,
    /// Where traces go.
    #[command(flatten)]
    pub traces: crate::otel::TraceArgs,
}

impl Args {
    /// Checks what clap cannot. Errors name the option.
    pub fn check(&self) -> anyhow::Result<()> {
        turno::check_name("the queue of --name", &self.queue())?;
        if !(Duration::from_millis(200)..=limits::LEASE_MAX).contains(&self.lease) {
            return Err(Fault::usage("--lease is not between 200ms and 1 day").into());
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero() || timeout > limits::MAX_RUN_MAX / 2) {
            return Err(Fault::usage("--timeout is not between 1ms and 180 days").into());
        }
        if self.kill_after > Duration::from_secs(3600) {
            return Err(Fault::usage("--kill-after is above 1h").into());
        }
        Ok(())
    }

    /// The queue of this run.
    pub fn queue(&self) -> String {
        format!("run:{}", self.name)
    }

    /// How many commands run at the same time.
    pub fn concurrency(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(processors, usize::from)
    }

    /// The byte that ends a line.
    pub fn separator(&self) -> u8 {
        if self.null { 0 } else { b'\n' }
    }

    /// The limits of one attempt.
    pub fn limits(&self) -> Limits {
        Limits { timeout: self.timeout, grace: Duration::ZERO, kill_after: self.kill_after }
    }

    /// The time per attempt that the database enforces. It lies beyond `--timeout` by all that stopping a command can
    /// take, so that a line is given to nobody else before its command is known to be gone.
    pub fn max_run(&self) -> Duration {
        self.timeout
            .map_or(limits::MAX_RUN_MAX, |timeout| timeout + self.kill_after + Duration::from_secs(10))
    }
}
