//! PostgreSQL's programs. The server refuses to run as root, so root starts it as the user postgres.

use std::fs;
use std::path::{Path, PathBuf};

use tokio::process::Command;
use turno::{Error, ErrorKind, Result};

use super::{child, failed, finish, in_path, is_root};

const SETTINGS: &str = "\
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 200
shared_buffers = 64MB
";

/// The folder with `initdb` and `postgres`.
pub(super) struct Programs(PathBuf);

impl Programs {
    /// `TURNO_TEST_POSTGRES_BIN`, or the newest that Debian installed, or the search path's.
    pub(super) fn find() -> Result<Self> {
        if let Some(folder) = std::env::var_os("TURNO_TEST_POSTGRES_BIN") {
            return Ok(Programs(folder.into()));
        }
        let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let mut found: Vec<(u32, PathBuf)> = debian
            .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
            .filter(|(_, bin)| bin.join("postgres").exists())
            .collect();
        found.sort();
        found.pop().map(|(_, bin)| bin).or_else(|| in_path("postgres")).map(Programs).ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                "--own-server finds no PostgreSQL; name its programs' folder in TURNO_TEST_POSTGRES_BIN",
            )
        })
    }

    pub(super) async fn prepare(&self, folder: &Path) -> Result<()> {
        let data = folder.join("data");
        fs::create_dir(&data).map_err(|error| failed("a folder for the server", error))?;
        if is_root() {
            give_to_postgres(folder).await?;
        }
        let mut initdb = self.command("initdb", folder);
        initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-D"]).arg(&data);
        finish("initdb", initdb).await?;
        let configuration = data.join("postgresql.conf");
        let text = fs::read_to_string(&configuration).map_err(|error| failed("its settings", error))?;
        fs::write(&configuration, text + SETTINGS).map_err(|error| failed("its settings", error))
    }

    pub(super) fn server(&self, folder: &Path, port: u16) -> Command {
        let mut command = self.command("postgres", folder);
        command.arg("-D").arg(folder.join("data")).arg("-p").arg(port.to_string());
        command
    }

    fn command(&self, program: &str, folder: &Path) -> Command {
        let program = self.0.join(program);
        if !is_root() {
            return child(Command::new(program), folder);
        }
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(program);
        child(command, folder)
    }
}

async fn give_to_postgres(folder: &Path) -> Result<()> {
    let status = Command::new("chown").args(["-R", "postgres:postgres"]).arg(folder).status().await;
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(failed("chown", "there is no user postgres to run a server as")),
        Err(error) => Err(failed("chown", error)),
    }
}
