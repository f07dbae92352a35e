//! A server of torture's own, in a temporary folder and on a free port, so that there is one to kill. Its memory of what
//! it committed is on: it writes through as it does by default. It refuses to use a server that somebody else started.

mod mysql;
mod postgres;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use turno::{Engine, Error, ErrorKind, Result};

use crate::engine;

/// How long a start may take, with all that a recovery needs.
const START_WITHIN: Duration = Duration::from_secs(60);
/// How long a command of the user's may take to bring a server back.
const COMMAND_WITHIN: Duration = Duration::from_secs(120);
/// How many ports are tried.
const PORTS_TRIED: u32 = 10;
const LOG: &str = "server.log";

/// The programs of one kind of server.
enum Programs {
    Postgres(postgres::Programs),
    Mysql(mysql::Programs),
}

/// The server.
pub struct OwnServer {
    folder: tempfile::TempDir,
    programs: Programs,
    port: u16,
    process: Mutex<Option<Child>>,
}

fn failed(what: &str, error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{what}: {error}"))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The folder of the search path that has this program.
fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find(|folder| folder.join(program).exists())
}

/// A program that goes with this process and hears nothing of the terminal.
fn child(mut command: Command, folder: &Path) -> Command {
    command.current_dir(folder).stdin(Stdio::null()).kill_on_drop(true).process_group(0);
    command
}

/// Runs a program to its end, which has to be a good one.
async fn finish(what: &str, mut command: Command) -> Result<()> {
    let output = command.output().await.map_err(|error| failed(what, error))?;
    if output.status.success() {
        return Ok(());
    }
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Err(failed(what, format!("{} {}", said.trim(), complained.trim())))
}

/// Runs the user's command, which kills a server and starts it again; `TURNO_DOWN_MS` says how long it shall be away.
pub(crate) async fn restart_with(command: &str, down: Duration) -> Result<()> {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env("TURNO_DOWN_MS", down.as_millis().to_string());
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let status = tokio::time::timeout(COMMAND_WITHIN, shell.status()).await;
    match status.map_err(|_| failed("the command took longer than", format!("{COMMAND_WITHIN:?}")))? {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed("the command", status)),
        Err(error) => Err(failed("the command", error)),
    }
}

impl Programs {
    fn find(engine: Engine) -> Result<Self> {
        match engine {
            Engine::Postgres => postgres::Programs::find().map(Programs::Postgres),
            Engine::Mysql | Engine::Mariadb => mysql::Programs::find(engine).map(Programs::Mysql),
            _ => Err(Error::invalid(format!("--own-server starts postgres, mysql or mariadb, not {engine}"))),
        }
    }

    /// Makes a server's data in the folder.
    async fn prepare(&self, folder: &Path) -> Result<()> {
        match self {
            Programs::Postgres(programs) => programs.prepare(folder).await,
            Programs::Mysql(programs) => programs.prepare(folder).await,
        }
    }

    fn server(&self, folder: &Path, port: u16) -> Command {
        match self {
            Programs::Postgres(programs) => programs.server(folder, port),
            Programs::Mysql(programs) => programs.server(folder, port),
        }
    }

    fn url(&self, port: u16) -> String {
        match self {
            Programs::Postgres(_) => {
                format!("postgres://postgres@127.0.0.1:{port}/postgres?sslmode=disable")
            }
            Programs::Mysql(programs) => format!("{}://root@127.0.0.1:{port}/", programs.engine.as_str()),
        }
    }
}

impl OwnServer {
    /// Makes a server of this kind and starts it.
    pub async fn start(engine: Engine) -> Result<Self> {
        let programs = Programs::find(engine)?;
        let folder = tempfile::Builder::new().prefix("turno-torture-").tempdir();
        let folder = folder.map_err(|error| failed("a folder for the server", error))?;
        programs.prepare(folder.path()).await?;
        let mut server = OwnServer { folder, programs, port: 0, process: Mutex::default() };
        for _ in 0..PORTS_TRIED {
            // Below the range from which the kernel takes ports for outgoing connections.
            server.port = fastrand::u16(15_000..32_000);
            if server.launch().await.is_ok() {
                return Ok(server);
            }
        }
        Err(failed("the server did not start", server.log_end()))
    }

    /// Where it is.
    pub fn url(&self) -> String {
        self.programs.url(self.port)
    }

    async fn launch(&self) -> Result<()> {
        let log = fs::OpenOptions::new().append(true).create(true).open(self.folder.path().join(LOG));
        let log = log.map_err(|error| failed("the server's log", error))?;
        let mut command = self.programs.server(self.folder.path(), self.port);
        command.stdout(Stdio::null()).stderr(log);
        let mut child = command.spawn().map_err(|error| failed("the server", error))?;
        let (began, url) = (Instant::now(), self.url());
        while began.elapsed() < START_WITHIN {
            if let Ok(Some(status)) = child.try_wait() {
                return Err(failed("the server ended", status));
            }
            if engine::answers(&url).await {
                *self.process.lock().await = Some(child);
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(failed("the server did not answer within", format!("{START_WITHIN:?}")))
    }

    /// Kills it hard, waits, and starts it again.
    pub(crate) async fn restart(&self, down: Duration) -> Result<()> {
        let Some(mut child) = self.process.lock().await.take() else { return Ok(()) };
        child.kill().await.map_err(|error| failed("kill", error))?;
        tokio::time::sleep(down).await;
        let began = Instant::now();
        // What it left behind, locks and shared memory, is there for a moment.
        loop {
            match self.launch().await {
                Err(_) if began.elapsed() < START_WITHIN => {
                    tokio::time::sleep(Duration::from_millis(100)).await
                }
                other => return other,
            }
        }
    }

    /// Stops it; the folder goes with this value.
    pub async fn stop(&self) {
        let Some(mut child) = self.process.lock().await.take() else { return };
        if let Some(pid) = child.id().and_then(|pid| Pid::from_raw(pid as i32)) {
            // Nobody needs what is in it any more: PostgreSQL ends at once on this, MySQL is killed below.
            let _ = kill_process(pid, Signal::QUIT);
        }
        let patience = match self.programs {
            Programs::Postgres(_) => Duration::from_secs(10),
            Programs::Mysql(_) => Duration::from_secs(1),
        };
        if tokio::time::timeout(patience, child.wait()).await.is_err() {
            let _ = child.kill().await;
        }
    }

    fn log_end(&self) -> String {
        let log = fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_default();
        log.lines().rev().take(3).collect::<Vec<_>>().join(" | ")
    }
}
