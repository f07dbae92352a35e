//! A PostgreSQL server of torture's own, in a temporary folder and on a free port, so that there is one to kill. Its
//! memory of what it committed is on: fsync stays as it is by default. It refuses to run as root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use turno::{Error, ErrorKind, Result};

/// How long a start may take, with all that a recovery needs.
const START_WITHIN: Duration = Duration::from_secs(60);
/// How many ports are tried.
const PORTS_TRIED: u32 = 10;

const SETTINGS: &str = "\
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 200
shared_buffers = 64MB
";

/// The server.
pub struct OwnServer {
    folder: tempfile::TempDir,
    bin: PathBuf,
    port: u16,
    process: Mutex<Option<Child>>,
}

fn failed(what: &str, error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{what}: {error}"))
}

/// Where `initdb` and `postgres` are: `TURNO_TEST_POSTGRES_BIN`, or the newest that Debian installed, or the path's.
fn bin() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("TURNO_TEST_POSTGRES_BIN") {
        return Ok(folder.into());
    }
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = debian
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, bin)| bin.join("postgres").exists())
        .collect();
    found.sort();
    let in_path = std::env::var_os("PATH");
    let in_path =
        in_path.iter().flat_map(std::env::split_paths).find(|folder| folder.join("postgres").exists());
    found.pop().map(|(_, bin)| bin).or(in_path).ok_or_else(|| {
        Error::new(
            ErrorKind::NotFound,
            "--own-server finds no PostgreSQL; name its programs' folder in TURNO_TEST_POSTGRES_BIN",
        )
    })
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A program of the server's, run as the user postgres if this is root's process.
fn command(program: &Path, folder: &Path) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir(folder).stdin(Stdio::null()).kill_on_drop(true).process_group(0);
    command
}

impl OwnServer {
    /// Makes a cluster and starts it.
    pub async fn start() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("turno-torture-").tempdir();
        let folder = folder.map_err(|error| failed("a folder for the server", error))?;
        let (bin, data) = (bin()?, folder.path().join("data"));
        fs::create_dir(&data).map_err(|error| failed("a folder for the server", error))?;
        if is_root() {
            give_to_postgres(folder.path()).await?;
        }
        let mut initdb = command(&bin.join("initdb"), folder.path());
        initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-D"]).arg(&data);
        let output = initdb.output().await.map_err(|error| failed("initdb", error))?;
        if !output.status.success() {
            return Err(failed("initdb", String::from_utf8_lossy(&output.stderr).trim()));
        }
        let configuration = data.join("postgresql.conf");
        let text = fs::read_to_string(&configuration).map_err(|error| failed("its settings", error))?;
        fs::write(&configuration, text + SETTINGS).map_err(|error| failed("its settings", error))?;
        let mut server = OwnServer { folder, bin, port: 0, process: Mutex::default() };
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
        format!("postgres://postgres@127.0.0.1:{}/postgres?sslmode=disable", self.port)
    }

    async fn launch(&self) -> Result<()> {
        let log =
            fs::OpenOptions::new().append(true).create(true).open(self.folder.path().join("server.log"));
        let log = log.map_err(|error| failed("the server's log", error))?;
        let mut postgres = command(&self.bin.join("postgres"), self.folder.path());
        postgres.arg("-D").arg(self.folder.path().join("data")).arg("-p").arg(self.port.to_string());
        postgres.stdout(Stdio::null()).stderr(log);
        let mut child = postgres.spawn().map_err(|error| failed("postgres", error))?;
        let began = Instant::now();
        while began.elapsed() < START_WITHIN {
            if let Ok(Some(status)) = child.try_wait() {
                return Err(failed("the server ended", status));
            }
            let config: std::result::Result<tokio_postgres::Config, _> = self.url().parse();
            let config = config.map_err(|error| failed("its URL", error))?;
            if config.connect(tokio_postgres::NoTls).await.is_ok() {
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
        // The processes that it left behind keep its shared memory for a moment.
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
            // Immediate shutdown: nobody needs what is in it any more.
            let _ = kill_process(pid, Signal::QUIT);
        }
        if tokio::time::timeout(Duration::from_secs(10), child.wait()).await.is_err() {
            let _ = child.kill().await;
        }
    }

    fn log_end(&self) -> String {
        let log = fs::read_to_string(self.folder.path().join("server.log")).unwrap_or_default();
        log.lines().rev().take(3).collect::<Vec<_>>().join(" | ")
    }
}

/// The server refuses to run as root, so its folder has to be another user's.
async fn give_to_postgres(folder: &Path) -> Result<()> {
    let status = Command::new("chown").args(["-R", "postgres:postgres"]).arg(folder).status().await;
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(failed("chown", "there is no user postgres to run a server as")),
        Err(error) => Err(failed("chown", error)),
    }
}
