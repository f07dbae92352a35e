//! A database per case on each engine, a session of its owner, and a picture of its schema.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use mysql_async::prelude::Queryable;
use tokio::runtime::Runtime;

use crate::common::{Answer, LIMIT, Running, bare, finish};

/// Where a case runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    Postgres,
    Mariadb,
    Mysql,
}

impl Engine {
    pub const ALL: [Engine; 4] = [Engine::Sqlite, Engine::Postgres, Engine::Mariadb, Engine::Mysql];

    pub fn name(self) -> &'static str {
        match self {
            Engine::Sqlite => "sqlite",
            Engine::Postgres => "postgres",
            Engine::Mariadb => "mariadb",
            Engine::Mysql => "mysql",
        }
    }

    /// The server's URL; `None` if nobody named one.
    pub fn server(self) -> Option<String> {
        let variable = match self {
            Engine::Sqlite => return Some(String::new()),
            Engine::Postgres => "TURNO_TEST_POSTGRES_URL",
            Engine::Mariadb => "TURNO_TEST_MARIADB_URL",
            Engine::Mysql => "TURNO_TEST_MYSQL_URL",
        };
        std::env::var(variable).ok().filter(|url| !url.is_empty())
    }

    /// The engine of a URL. What has no scheme is a file.
    pub fn of(url: &str) -> Self {
        match url.split_once("://").map(|(scheme, _)| scheme) {
            Some("postgres" | "postgresql") => Engine::Postgres,
            Some("mariadb") => Engine::Mariadb,
            Some("mysql") => Engine::Mysql,
            _ => Engine::Sqlite,
        }
    }

    /// A place for one installation: its name and its URL.
    fn place(self, folder: &tempfile::TempDir) -> (String, String) {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!(
            "tu_{:x}_{number}_{:x}",
            std::process::id(),
            std::time::UNIX_EPOCH.elapsed().unwrap().subsec_micros()
        );
        let server = self.server().unwrap();
        let url = match self {
            Engine::Sqlite => folder.path().join(format!("{name}.db")).display().to_string(),
            Engine::Postgres => {
                Owner::of(&server, "turno").execute(&format!("CREATE DATABASE {name}"));
                let (scheme, rest) = server.split_once("://").unwrap();
                let authority = rest.split(['/', '?']).next().unwrap();
                let query = server.split_once('?').map_or(String::new(), |(_, query)| format!("?{query}"));
                format!("{scheme}://{authority}/{name}{query}")
            }
            Engine::Mariadb | Engine::Mysql => format!("{server}?turno_schema={name}"),
        };
        (name, url)
    }
}

/// An installation of the old program.
pub struct Rig {
    pub engine: Engine,
    pub url: String,
    name: String,
    folder: tempfile::TempDir,
}

impl Rig {
    pub fn new(engine: Engine) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (name, url) = engine.place(&folder);
        let rig = Rig { engine, url, name, folder };
        let answer = rig.call(&["migrate"]);
        assert_eq!(answer.status, Some(0), "{answer:?}");
        rig
    }

    /// A path in a folder of this case.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs the old program.
    pub fn call(&self, args: &[&str]) -> Answer {
        let mut command = bare();
        command.env("TURNO_URL", &self.url).args(args);
        finish(command, b"")
    }

    /// A worker of the old program, which writes each job and attempt into this file.
    pub fn old_worker(&self, file: &str) -> Running {
        let mut command = bare();
        let append = format!("k=echo $TURNO_JOB_ID $TURNO_ATTEMPT >> {}", self.path(file).display());
        command.env("TURNO_URL", &self.url).args(["work", "--queue", "jobs", "-c", "2", "--kind", &append]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Running::start(command)
    }

    /// A session of the owner.
    pub fn owner(&self) -> Owner {
        Owner::of(&self.url, &self.name)
    }

    /// What the schema is, a line for each thing in it.
    pub fn picture(&self) -> Vec<String> {
        let mut owner = self.owner();
        let queries = match self.engine {
            Engine::Sqlite => SQLITE_PICTURE,
            Engine::Postgres => POSTGRES_PICTURE,
            Engine::Mariadb | Engine::Mysql => MYSQL_PICTURE,
        };
        let mut lines: Vec<String> = queries.iter().flat_map(|sql| owner.rows(sql)).collect();
        lines.iter_mut().for_each(|line| *line = line.replace(&self.name, "turno"));
        lines.sort();
        lines
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let server = self.engine.server().unwrap();
        match self.engine {
            Engine::Sqlite => {}
            Engine::Postgres => {
                let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
                Owner::of(&server, "turno").execute(&sql);
            }
            Engine::Mariadb | Engine::Mysql => {
                let mut owner = self.owner();
                owner.execute("DROP DATABASE IF EXISTS turno");
                for role in ["producer", "worker", "scheduler", "operator", "viewer", "service", "admin"] {
                    owner.execute(&format!("DROP ROLE IF EXISTS turno_{role}"));
                }
            }
        }
    }
}

/// A session that may do everything. `turno` in its statements stands for the installation.
pub struct Owner {
    name: String,
    runtime: Runtime,
    session: Session,
}

enum Session {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client),
    Mysql(mysql_async::Conn),
}

impl Owner {
    fn of(url: &str, name: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let session = runtime.block_on(async {
            match Engine::of(url) {
                Engine::Sqlite => {
                    let connection = rusqlite::Connection::open(url).unwrap();
                    connection.busy_timeout(LIMIT).unwrap();
                    Session::Sqlite(connection)
                }
                Engine::Postgres => {
                    let (client, connection) =
                        tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
                    tokio::spawn(connection);
                    Session::Postgres(client)
                }
                Engine::Mariadb | Engine::Mysql => {
                    let url = url.split('?').next().unwrap().replacen("mariadb://", "mysql://", 1);
                    let options = mysql_async::Opts::from_url(&url).unwrap();
                    Session::Mysql(mysql_async::Conn::new(options).await.unwrap())
                }
            }
        });
        Owner { name: name.to_owned(), runtime, session }
    }

    pub fn execute(&mut self, sql: &str) {
        match &mut self.session {
            Session::Sqlite(connection) => connection.execute_batch(sql).unwrap(),
            Session::Postgres(client) => self.runtime.block_on(client.batch_execute(sql)).unwrap(),
            Session::Mysql(connection) => {
                let sql = sql.replace("turno", &self.name);
                self.runtime.block_on(connection.query_drop(sql)).unwrap();
            }
        }
    }

    /// Rows of one column, which is a text.
    pub fn rows(&mut self, sql: &str) -> Vec<String> {
        match &mut self.session {
            Session::Sqlite(connection) => {
                let mut statement = connection.prepare(sql).unwrap();
                let rows = statement.query_map([], |row| row.get(0)).unwrap();
                rows.map(Result::unwrap).collect()
            }
            Session::Postgres(client) => {
                let messages = self.runtime.block_on(client.simple_query(sql)).unwrap();
                let row = |message| match message {
                    tokio_postgres::SimpleQueryMessage::Row(row) => {
                        Some(row.get(0).unwrap_or_default().to_owned())
                    }
                    _ => None,
                };
                messages.into_iter().filter_map(row).collect()
            }
            Session::Mysql(connection) => {
                let sql = sql.replace("turno", &self.name);
                self.runtime.block_on(connection.query(sql)).unwrap()
            }
        }
    }

    /// The table of this name.
    pub fn table(&self, name: &str) -> String {
        if matches!(self.session, Session::Sqlite(_)) {
            format!("turno_{name}")
        } else {
            format!("turno.{name}")
        }
    }

    /// How many rows of a table fit a condition.
    pub fn count(&mut self, table: &str, condition: &str) -> u64 {
        let kind = if matches!(self.session, Session::Postgres(_)) { "text" } else { "char" };
        let sql = format!("SELECT CAST(count(*) AS {kind}) FROM {} WHERE {condition}", self.table(table));
        self.rows(&sql)[0].parse().unwrap()
    }
}

const SQLITE_PICTURE: &[&str] = &[
    "SELECT name || ': ' || coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%'",
    "SELECT name || ' ' || checksum FROM turno_schema_file",
    "SELECT 'version ' || version || ' ' || oldest_binary FROM turno_meta",
];

const POSTGRES_PICTURE: &[&str] = &[
    "SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || coalesce(column_default, '') || is_nullable
     FROM information_schema.columns WHERE table_schema = 'turno'",
    "SELECT indexdef || ' valid ' || indisvalid FROM pg_indexes JOIN pg_index ON indexrelid = ('turno.' || indexname)::regclass
     WHERE schemaname = 'turno'",
    "SELECT conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'turno'::regnamespace",
    "SELECT oid::regprocedure || ' ' || md5(pg_get_functiondef(oid)) || ' ' ||
         array_to_string(ARRAY(SELECT a::text FROM unnest(proacl) a ORDER BY 1), ' ')
     FROM pg_proc WHERE pronamespace = 'turno'::regnamespace",
    "SELECT file || ' ' || checksum FROM turno.installed",
    "SELECT 'version ' || version || ' ' || oldest_binary FROM turno.meta",
];

const MYSQL_PICTURE: &[&str] = &[
    "SELECT CONCAT(table_name, '.', column_name, ' ', column_type, ' ', is_nullable) FROM information_schema.columns
     WHERE table_schema = 'turno'",
    "SELECT CONCAT(table_name, '.', index_name, ' ', seq_in_index, ' ', column_name, ' ', non_unique)
     FROM information_schema.statistics WHERE table_schema = 'turno'",
    "SELECT CONCAT(routine_name, ' ', SHA2(REPLACE(routine_definition, 'turno', ''), 256)) FROM information_schema.routines
     WHERE routine_schema = 'turno'",
    "SELECT CONCAT(user, ' may call ', routine_name) FROM mysql.procs_priv WHERE db = 'turno'",
    "SELECT CONCAT(file, ' ', checksum) FROM turno.installed",
    "SELECT CONCAT('version ', version, ' ', oldest_binary, ' ', migrating) FROM turno.meta",
];
