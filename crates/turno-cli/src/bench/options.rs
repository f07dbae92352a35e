//! The options of `turno bench`, and how large a run is by default. Quick sizes are for a look; `--full` are those of the
//! published figures.

use std::time::Duration;

use clap::ValueEnum;
use turno::Engine;
use turno_floor::Hold;

use crate::parse;

const HELP: &str = "\
W1 enqueue in bulk               W5 a deep queue against a shallow one
W2 drain waiting jobs            W6 idle workers, and a job that becomes due
W3 one job at a time, wake-up    W7 heartbeats of many running jobs
W4 a snapshot held open          mix W1 and W2 at the same time

Each figure is printed with its ratio to the floor: the same raw work by plain
SQL, measured before and after on the same machine. The workloads use queues
named turno-bench/..., and the floor a schema turno_floor or a file beside the
database; all of it is removed at the end. Other load on the database makes
every figure worse, and the benchmark makes other load slower.

Example:
  turno bench --db postgres://postgres@localhost/app W1 W2 --rounds 3";

/// One of the workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Enqueue in bulk
    W1,
    /// Drain waiting jobs
    W2,
    /// One job at a time to an idle worker
    W3,
    /// A snapshot held open
    W4,
    /// A deep queue
    W5,
    /// Idle workers
    W6,
    /// Many running jobs
    W7,
    /// W1 and W2 at the same time
    Mix,
}

impl Workload {
    const ALL: [Workload; 8] = [
        Workload::W1,
        Workload::W2,
        Workload::W3,
        Workload::W4,
        Workload::W5,
        Workload::W6,
        Workload::W7,
        Workload::Mix,
    ];
}

/// What keeps the database from forgetting old rows in W4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HoldName {
    /// A snapshot held by a session that does nothing
    Snapshot,
    /// A transaction that has written and sits idle
    Writer,
    /// Four long scans
    Readers,
}

impl HoldName {
    /// Whether it names this one.
    pub fn is(self, hold: Hold) -> bool {
        match self {
            HoldName::Snapshot => hold == Hold::Snapshot,
            HoldName::Writer => hold == Hold::Writer,
            HoldName::Readers => hold == Hold::Readers,
        }
    }
}

/// Options of `turno bench`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The workloads; all of them if none is named
    #[arg(ignore_case = true, value_name = "WORKLOAD")]
    workloads: Vec<Workload>,
    /// The sizes of the published figures, which take about an hour
    #[arg(long)]
    full: bool,
    /// Jobs of W1, W2 and the mix, and of a round of W4; 20000, with --full 100000
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    jobs: Option<u64>,
    /// How often W1, W2, W5 and the mix are repeated; 2, with --full 5
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Jobs that pass while the snapshot of W4 is held; 100000, with --full 1000000
    #[arg(long)]
    held: Option<u64>,
    /// The one kind of transaction that W4 holds open; all three, one after the other, if none is named
    #[arg(long)]
    pub hold: Option<HoldName>,
    /// Jobs that wait, are scheduled or have ended in W5; 100000, with --full 1000000
    #[arg(long)]
    deep: Option<u64>,
    /// Jobs of W3; 100, with --full 500
    #[arg(long)]
    wakes: Option<u32>,
    /// How long W6 and W7 watch; 15s, with --full 1m
    #[arg(long, value_parser = parse::duration, value_name = "DURATION")]
    watch: Option<Duration>,
    /// Running jobs of W7; 2000, with --full 10000
    #[arg(long)]
    running: Option<usize>,
    /// Jobs in one call of enqueue
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub enqueue_batch: u64,
    /// Jobs in one claim and in one settle, of the worker and of the floor
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub batch: u32,
    /// Worker runtimes that drain at the same time, each with connections of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub workers: u32,
    /// Jobs that a worker claims ahead of its free slots, at most; six batches by default
    #[arg(long)]
    pub prefetch: Option<usize>,
}

impl Args {
    /// What to run, in order.
    pub fn workloads(&self) -> Vec<Workload> {
        if self.workloads.is_empty() { Workload::ALL.to_vec() } else { self.workloads.clone() }
    }
}

/// How much work there is.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// See [`Args::jobs`].
    pub jobs: u64,
    /// See [`Args::rounds`].
    pub rounds: u32,
    /// See [`Args::held`].
    pub held: u64,
    /// See [`Args::deep`].
    pub deep: u64,
    /// See [`Args::wakes`].
    pub wakes: u32,
    /// See [`Args::watch`].
    pub watch: Duration,
    /// See [`Args::running`].
    pub running: usize,
}

impl Sizes {
    /// What was asked for, or the defaults.
    pub fn of(args: &Args, engine: Engine) -> Self {
        let full = args.full;
        // One file and one writer: a tenth is enough for a quick look.
        let quick = if engine == Engine::Sqlite { 10_000 } else { 20_000 };
        Sizes {
            jobs: args.jobs.unwrap_or(if full { 100_000 } else { quick }),
            rounds: args.rounds.unwrap_or(if full { 5 } else { 2 }),
            held: args.held.unwrap_or(if full { 1_000_000 } else { 100_000 }),
            deep: args.deep.unwrap_or(if full { 1_000_000 } else { 100_000 }),
            wakes: args.wakes.unwrap_or(if full { 500 } else { 100 }),
            watch: args.watch.unwrap_or(Duration::from_secs(if full { 60 } else { 15 })),
            running: args.running.unwrap_or(if full { 10_000 } else { 2000 }),
        }
    }
}
