//! What a run is asked to do: faults, workers, times, the seed. It refuses to draw anything: `plan` does that.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;
use turno::{Engine, Error, Result};

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// SIGKILL at a named place.
    Kill,
    /// SIGSTOP past the lease at a named place, then SIGCONT.
    Pause,
    /// The server's answer is lost after it committed.
    DropReply,
    /// The connection is cut while round trip n of an operation is on its way.
    Cut,
    /// The server is killed and started again.
    Restart,
    /// The server ends sessions, or has no connection left to give.
    Terminate,
    /// A worker whose clock is an hour wrong.
    Clock,
    /// Delays, and a black hole without FIN.
    Slow,
    /// Transactions left open: in the middle of `complete_in`, and a lock on one running row.
    Hold,
}

impl Fault {
    /// Every fault, in the order of the documentation.
    pub const ALL: [Fault; 9] = [
        Fault::Kill,
        Fault::Pause,
        Fault::DropReply,
        Fault::Cut,
        Fault::Restart,
        Fault::Terminate,
        Fault::Clock,
        Fault::Slow,
        Fault::Hold,
    ];

    /// The word on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Fault::Kill => "kill",
            Fault::Pause => "pause",
            Fault::DropReply => "drop-reply",
            Fault::Cut => "cut",
            Fault::Restart => "restart",
            Fault::Terminate => "terminate",
            Fault::Clock => "clock",
            Fault::Slow => "slow",
            Fault::Hold => "hold",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Fault {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Fault::ALL.into_iter().find(|fault| fault.as_str() == text).ok_or_else(|| {
            let known = Fault::ALL.map(Fault::as_str).join(", ");
            Error::invalid(format!("{text:?} is not one of {known}"))
        })
    }
}

/// What a run is asked to do.
#[derive(Debug, Clone)]
pub struct Options {
    /// The database, or `None` with `own_server`.
    pub url: Option<String>,
    /// Further nodes of the same database: workers are spread over `url` and these.
    pub nodes: Vec<String>,
    /// A command of the user's that kills the server, or one of its nodes, and starts it again.
    pub restart_with: Option<String>,
    /// How long faults are injected.
    pub seconds: u64,
    /// How many worker processes.
    pub workers: usize,
    /// What the plan is drawn from.
    pub seed: u64,
    /// Which faults.
    pub faults: Vec<Fault>,
    /// How long workers hold jobs without a heartbeat.
    pub lease: Duration,
    /// Start a server of this kind in a folder of its own, which may then be killed.
    pub own_server: Option<Engine>,
    /// Keep the jobs in the database after a run without findings.
    pub keep: bool,
    /// End the run with the first violation.
    pub stop_early: bool,
    /// The program that has the hidden command [`crate::WORKER_COMMAND`].
    pub program: PathBuf,
}

impl Options {
    /// A run of 60 s with 8 workers and every fault, from this seed.
    pub fn new(program: PathBuf, seed: u64) -> Self {
        Options {
            url: None,
            nodes: Vec::new(),
            restart_with: None,
            seconds: 60,
            workers: 8,
            seed,
            faults: Fault::ALL.to_vec(),
            lease: Duration::from_millis(1500),
            own_server: None,
            keep: false,
            stop_early: false,
            program,
        }
    }

    /// Errors with `InvalidArgument` that names the option.
    pub fn check(&self) -> Result<()> {
        let lease_ms = self.lease.as_millis();
        if !(500..=60_000).contains(&lease_ms) {
            return Err(Error::invalid(format!("lease {lease_ms} ms is not between 500 ms and 1 min")));
        }
        if !(1..=64).contains(&self.workers) {
            return Err(Error::invalid(format!("workers {} is not in 1..=64", self.workers)));
        }
        if !(1..=86_400).contains(&self.seconds) {
            return Err(Error::invalid(format!("seconds {} is not in 1..=86400", self.seconds)));
        }
        match (&self.url, self.own_server) {
            (None, None) => Err(Error::invalid("no database: give its URL, or --own-server")),
            (Some(_), Some(_)) => Err(Error::invalid("--own-server starts a server; give no other database")),
            (None, Some(_)) if !self.nodes.is_empty() || self.restart_with.is_some() => {
                Err(Error::invalid("--own-server is one server, and restarts it itself"))
            }
            _ => Ok(()),
        }
    }

    /// The command that repeats the run, without the database's password.
    pub fn command(&self) -> String {
        let faults: Vec<&str> = self.faults.iter().map(|fault| fault.as_str()).collect();
        let database = match (&self.url, self.own_server) {
            (_, Some(engine)) => format!("--own-server={engine}"),
            (Some(url), None) => format!("--db '{}'", turno::redact(url)),
            (None, None) => String::new(),
        };
        let nodes: String =
            self.nodes.iter().map(|node| format!(" --node '{}'", turno::redact(node))).collect();
        let restart =
            self.restart_with.as_ref().map(|with| format!(" --restart-with '{with}'")).unwrap_or_default();
        format!(
            "turno torture {database}{nodes}{restart} --seed {} --seconds {} --workers {} --lease {}ms --faults {}",
            self.seed,
            self.seconds,
            self.workers,
            self.lease.as_millis(),
            faults.join(",")
        )
    }

    /// How long after the last fault everything must have ended.
    pub fn settle_limit(&self) -> Duration {
        Duration::from_secs(20) + self.lease * 8
    }

    /// Why a fault cannot be injected into this database; `None` if it can.
    pub fn not_run(&self, fault: Fault, engine: Engine) -> Option<&'static str> {
        let sqlite = engine == Engine::Sqlite;
        match fault {
            Fault::DropReply | Fault::Cut | Fault::Terminate if sqlite => {
                Some("SQLite is a file: there is no connection to lose")
            }
            Fault::Restart if sqlite => Some("SQLite has no server"),
            Fault::Restart if self.own_server.is_none() && self.restart_with.is_none() => Some(
                "only a server that torture itself started (--own-server) is killed, or by --restart-with",
            ),
            Fault::Terminate if !self.nodes.is_empty() => {
                Some("sessions have numbers of their own on each node")
            }
            Fault::Clock if sqlite => Some("the clock of SQLite is the clock of the process"),
            Fault::Clock if crate::process::faketime().is_none() => {
                Some("libfaketime is not installed (package faketime)")
            }
            _ => None,
        }
    }
}
