//! A database per case, a server on it, and a small client. Time moves by nothing: the cases wait for conditions.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use crate::common::{Answer, LIMIT, Running, bare, finish};

/// Where a case runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    Postgres,
    Mariadb,
}

impl Engine {
    pub const ALL: [Engine; 3] = [Engine::Sqlite, Engine::Postgres, Engine::Mariadb];

    pub fn name(self) -> &'static str {
        match self {
            Engine::Sqlite => "sqlite",
            Engine::Postgres => "postgres",
            Engine::Mariadb => "mariadb",
        }
    }

    /// The server's URL; `None` if nobody named one.
    pub fn server(self) -> Option<String> {
        let variable = match self {
            Engine::Sqlite => return Some(String::new()),
            Engine::Postgres => "TURNO_TEST_POSTGRES_URL",
            Engine::Mariadb => "TURNO_TEST_MARIADB_URL",
        };
        std::env::var(variable).ok().filter(|url| !url.is_empty())
    }
}

/// A database with the schema.
pub struct Rig {
    pub engine: Engine,
    pub url: String,
    name: String,
    folder: tempfile::TempDir,
}

impl Rig {
    pub fn new(engine: Engine) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (name, server) = (new_name(), engine.server().unwrap());
        let url = match engine {
            Engine::Sqlite => folder.path().join("jobs.db").display().to_string(),
            Engine::Postgres => {
                execute(&server, &format!("CREATE DATABASE {name}"));
                let (scheme, rest) = server.split_once("://").unwrap();
                let authority = rest.split(['/', '?']).next().unwrap();
                let query = server.split_once('?').map_or(String::new(), |(_, query)| format!("?{query}"));
                format!("{scheme}://{authority}/{name}{query}")
            }
            Engine::Mariadb => format!("{server}?turno_schema={name}"),
        };
        let rig = Rig { engine, url, name, folder };
        assert_eq!(rig.call(&["migrate"]).status, Some(0));
        rig
    }

    /// A path in a folder of this case.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The binary, told which database.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = bare();
        command.env("TURNO_URL", &self.url).args(args);
        command
    }

    pub fn call(&self, args: &[&str]) -> Answer {
        finish(self.command(args), b"")
    }

    /// Enqueues a job and answers its id.
    pub fn enqueue(&self, queue: &str, kind: &str, more: &[&str]) -> String {
        let args = [&["enqueue", "--json", "--queue", queue, "--kind", kind], more].concat();
        let answer = self.call(&args);
        assert_eq!(answer.status, Some(0), "{answer:?}");
        answer.documents()[0]["id"].as_str().unwrap().to_owned()
    }

    /// A job that has died with this error.
    pub fn dead(&self, server: &Server, queue: &str, error: &str) -> String {
        let id = self.enqueue(queue, "k", &["--max-attempts", "1"]);
        let job = server.claim(queue);
        assert_eq!(job["id"], id.as_str());
        let body = serde_json::json!({"worker": "w", "jobs": [{"id": id, "attempt": job["attempt"],
            "token": job["token"], "error": error}]});
        assert_eq!(server.post("/api/v1/fail", &body).status, 200);
        id
    }

    /// The server, on a free port.
    pub fn serve(&self, args: &[&str]) -> Server {
        self.serve_at("127.0.0.1:0", args)
    }

    pub fn serve_at(&self, listen: &str, args: &[&str]) -> Server {
        self.serve_as(&self.url, &[&["--listen", listen], args].concat())
    }

    /// The server with this URL of the database.
    pub fn serve_as(&self, url: &str, args: &[&str]) -> Server {
        let mut command = self.command(&[&["serve", "--json"], args].concat());
        command.env("TURNO_URL", url).stdout(Stdio::piped());
        let mut running = Running::start(command);
        let mut line = String::new();
        BufReader::new(running.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).expect("the server says where it listens");
        let url = said["listening"].as_str().unwrap().replace("0.0.0.0", "127.0.0.1");
        Server { url, running, token: None, cookie: None }
    }

    /// The URL of a database login that has one role and nothing else; `None` where there are no logins.
    pub fn login(&self, role: &str) -> Option<String> {
        let (server, login) = (self.engine.server().unwrap(), format!("{}_l", self.name));
        match self.engine {
            Engine::Sqlite => return None,
            Engine::Postgres => {
                execute(&server, &format!("CREATE ROLE {login} LOGIN PASSWORD 'x' IN ROLE turno_{role}"));
            }
            Engine::Mariadb => {
                let role = format!("{}_{role}", self.name);
                let statements = [
                    format!("CREATE USER {login}@'127.0.0.1' IDENTIFIED BY 'x'"),
                    format!("GRANT {role} TO {login}@'127.0.0.1'"),
                    format!("SET DEFAULT ROLE {role} FOR {login}@'127.0.0.1'"),
                ];
                execute_mariadb(&server, statements.iter());
            }
        }
        let (scheme, rest) = self.url.split_once("://").unwrap();
        let host = rest.split_once('@').map_or(rest, |(_, host)| host);
        Some(format!("{scheme}://{login}:x@{host}"))
    }

    /// A token file with a token per role; its tokens are `ROLE` with enough zeros.
    pub fn token_file(&self) -> String {
        let path = self.path("tokens");
        let lines = ["producer", "worker", "scheduler", "operator", "viewer"]
            .map(|role| format!("{} {role}\n", token(role)));
        std::fs::write(&path, lines.concat()).unwrap();
        path.display().to_string()
    }

    /// Makes the database go away, where that can be done.
    pub fn drop_database(&self) {
        assert_eq!(self.engine, Engine::Postgres);
        execute(&self.engine.server().unwrap(), &format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let (server, name) = (self.engine.server().unwrap(), &self.name);
        match self.engine {
            Engine::Sqlite => {}
            Engine::Postgres => {
                execute(&server, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
                execute(&server, &format!("DROP ROLE IF EXISTS {name}_l"));
            }
            Engine::Mariadb => {
                let roles = ["producer", "worker", "scheduler", "operator", "viewer", "service", "admin"];
                let roles = roles.map(|role| format!("DROP ROLE IF EXISTS {name}_{role}"));
                let rest = [
                    format!("DROP DATABASE IF EXISTS {name}"),
                    format!("DROP USER IF EXISTS {name}_l@'127.0.0.1'"),
                ];
                execute_mariadb(&server, rest.iter().chain(&roles));
            }
        }
    }
}

/// The token of a role in [`Rig::token_file`].
pub fn token(role: &str) -> String {
    format!("{role}-{}", "0".repeat(20))
}

fn new_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let nanos = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u32;
    // At most 20 characters on MariaDB.
    format!("s{:x}_{:x}_{:x}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed), nanos)
}

fn execute(url: &str, statement: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(statement).await.unwrap();
    });
}

fn execute_mariadb<'a>(url: &str, statements: impl Iterator<Item = &'a String>) {
    use mysql_async::prelude::Queryable;
    let options = mysql_async::Opts::from_url(&url.replacen("mariadb://", "mysql://", 1)).unwrap();
    // As the program connects: by the socket root is somebody else, who is no admin of the roles.
    let options = mysql_async::OptsBuilder::from_opts(options).prefer_socket(false);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = mysql_async::Conn::new(options).await.unwrap();
        for statement in statements {
            connection.query_drop(statement).await.unwrap();
        }
        connection.disconnect().await.unwrap();
    });
}

/// A running server and how to speak to it.
pub struct Server {
    pub url: String,
    pub running: Running,
    pub token: Option<String>,
    pub cookie: Option<String>,
}

/// What it answered.
#[derive(Debug)]
pub struct Said {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub text: String,
}

impl Said {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Status and code of a problem.
    #[track_caller]
    pub fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status);
        (self.status, problem["code"].as_str().unwrap().to_owned())
    }
}

impl Server {
    /// The same server, asked with the token of a role.
    pub fn as_role(&mut self, role: &str) -> &Self {
        self.token = Some(token(role));
        self
    }

    pub fn get(&self, path: &str) -> Said {
        self.send("GET", path, &[], "")
    }

    pub fn post(&self, path: &str, body: &Value) -> Said {
        self.send("POST", path, &[("content-type", "application/json")], &body.to_string())
    }

    /// A form of a page.
    pub fn form(&self, path: &str, fields: &str) -> Said {
        self.send("POST", path, &[("content-type", "application/x-www-form-urlencoded")], fields)
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Said {
        let config = ureq::Agent::config_builder();
        let config = config.http_status_as_error(false).max_redirects(0).timeout_global(Some(LIMIT)).build();
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(cookie) = &self.cookie {
            request = request.header("cookie", cookie);
        }
        let request = request.body(body.as_bytes().to_vec()).unwrap();
        let mut response = ureq::Agent::new_with_config(config).run(request).unwrap();
        let headers = response.headers().iter();
        let headers = headers.map(|(n, v)| (n.to_string(), v.to_str().unwrap().to_owned())).collect();
        let text = response.body_mut().with_config().limit(64 << 20).read_to_string().unwrap();
        Said { status: response.status().as_u16(), headers, text }
    }

    /// A connection on which nothing was said yet.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.url.strip_prefix("http://").unwrap()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
        stream
    }

    /// Claims one job, which must be there, and answers it with its token.
    pub fn claim(&self, queue: &str) -> Value {
        let said = self.post("/api/v1/claim", &serde_json::json!({"queues": [queue], "worker": "w"}));
        assert_eq!(said.status, 200, "{said:?}");
        let claimed = said.json();
        let mut job = claimed["jobs"][0].clone();
        assert!(job.is_object(), "no job: {claimed}");
        job["token"] = claimed["token"].clone();
        job
    }
}
