//! The programs of MySQL and of MariaDB, installed or unpacked into a folder. The server runs as whoever runs torture,
//! with its own defaults for what it writes through.

use std::fs;
use std::path::{Path, PathBuf};

use tokio::process::Command;
use turno::{Engine, Error, ErrorKind, Result};

use super::{LOG, child, failed, finish, in_path, is_root};

const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
/// Without name resolution the loopback address is another host than localhost, where MySQL's root lives.
const INITIAL: &str = "CREATE USER IF NOT EXISTS root@'127.0.0.1'; \
                       GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n";

/// What is unpacked under one root, which is `/` for an installed server.
pub(super) struct Programs {
    pub(super) engine: Engine,
    root: PathBuf,
}

impl Programs {
    /// `TURNO_TEST_MARIADB_ROOT` or `TURNO_TEST_MYSQL_ROOT`, or what is installed.
    pub(super) fn find(engine: Engine) -> Result<Self> {
        let (server, variable) = match engine {
            Engine::Mariadb => ("mariadbd", "TURNO_TEST_MARIADB_ROOT"),
            _ => ("mysqld", "TURNO_TEST_MYSQL_ROOT"),
        };
        let named = std::env::var_os(variable).map(PathBuf::from);
        let installed = || {
            let in_place = Path::new("/usr/sbin").join(server).exists();
            let in_path = in_path(server).is_some_and(|folder| folder == Path::new("/usr/sbin"));
            (in_place || in_path).then(|| PathBuf::from("/"))
        };
        let root = named.or_else(installed).ok_or_else(|| {
            let text = format!(
                "--own-server={engine} finds no usr/sbin/{server}; name the folder it is under in {variable}"
            );
            Error::new(ErrorKind::NotFound, text)
        })?;
        Ok(Programs { engine, root })
    }

    pub(super) async fn prepare(&self, folder: &Path) -> Result<()> {
        fs::create_dir(folder.join("tmp")).map_err(|error| failed("a folder for the server", error))?;
        let mut install = match self.engine {
            Engine::Mariadb => {
                let mut install = self.command("usr/bin/mariadb-install-db", folder);
                install.args([
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                    "--skip-name-resolve",
                ]);
                install
            }
            _ => {
                let mut install = self.command("usr/sbin/mysqld", folder);
                install.arg("--initialize-insecure");
                install
            }
        };
        install.arg(format!("--log-error={}", folder.join(LOG).display()));
        finish("making the server's data", install).await?;
        fs::write(folder.join("init.sql"), INITIAL).map_err(|error| failed("its users", error))
    }

    pub(super) fn server(&self, folder: &Path, port: u16) -> Command {
        let mut command = match self.engine {
            Engine::Mariadb => {
                let mut command = self.command("usr/sbin/mariadbd", folder);
                command
                    .arg(format!("--log-bin={}", folder.join("data/binlog").display()))
                    .arg("--server-id=1");
                command
            }
            _ => {
                let mut command = self.command("usr/sbin/mysqld", folder);
                command.args(["--mysqlx=OFF", "--secure-file-priv=NULL"]);
                command
            }
        };
        command
            .arg(format!("--port={port}"))
            .args(["--bind-address=127.0.0.1", "--skip-name-resolve", "--max-connections=200"])
            .arg(format!("--init-file={}", folder.join("init.sql").display()))
            .arg(format!("--socket={}", folder.join("server.sock").display()))
            .arg(format!("--pid-file={}", folder.join("server.pid").display()))
            .arg(format!("--log-error={}", folder.join(LOG).display()));
        command
    }

    /// The program with what every one of them is told. A whole suite's libraries come with their own loader, which
    /// becomes the program.
    fn command(&self, program: &str, folder: &Path) -> Command {
        let (program, libraries) = (self.root.join(program), self.root.join(LIBRARIES));
        let loader = libraries.join("ld-linux-x86-64.so.2");
        let is_elsewhere = self.root != Path::new("/");
        let mut command = if is_elsewhere && loader.exists() {
            let mut command = Command::new(loader);
            let path = format!("{0}:{0}/mysql", libraries.display());
            command.arg("--library-path").arg(path).arg(program);
            command
        } else {
            let mut command = Command::new(program);
            if is_elsewhere {
                command.env("LD_LIBRARY_PATH", &libraries);
            }
            command
        };
        let usr = self.root.join("usr");
        command.arg("--no-defaults").arg(format!("--datadir={}", folder.join("data").display()));
        // A server that starts removes what it takes for its own in there, be it another one's.
        command.arg(format!("--tmpdir={}", folder.join("tmp").display()));
        if is_elsewhere {
            command
                .arg(format!("--basedir={}", usr.display()))
                .arg(format!("--lc-messages-dir={}", usr.join("share/mysql").display()))
                .arg(format!("--character-sets-dir={}", usr.join("share/mysql/charsets").display()))
                .arg(format!("--plugin-dir={}", usr.join("lib/mysql/plugin").display()));
        }
        if is_root() {
            command.arg("--user=root");
        }
        child(command, folder)
    }
}
