//! The new program: this test program, started again. It migrates step by step as it is told, or works.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;

use turno::schema_files::Ahead;
use turno::{BoxedBackend, Context, JobError, Worker};

use crate::ahead::ahead;
use crate::common::Running;
use crate::rig::Engine;

/// Migrates this database.
pub const MIGRATE: &str = "__newer_migrate";
/// Works its jobs and writes each into a file.
pub const WORK: &str = "__newer_work";

/// A backend of the new program.
pub async fn connect(url: &str, step: fn(&str)) -> turno::Result<BoxedBackend> {
    let engine = Engine::of(url);
    let ahead: Ahead = ahead(engine, step);
    Ok(match engine {
        Engine::Sqlite => {
            let options = turno::sqlite::SqliteOptions { ahead: Some(ahead), ..Default::default() };
            Arc::new(turno::sqlite::SqliteBackend::connect(url, options).await?)
        }
        Engine::Postgres => {
            let options = url.parse::<turno::postgres::PostgresOptions>()?.ahead(ahead);
            Arc::new(turno::postgres::PostgresBackend::connect_with(options).await?)
        }
        Engine::Mariadb | Engine::Mysql => {
            let options = url.parse::<turno::mysql::MysqlOptions>()?.ahead(ahead);
            Arc::new(turno::mysql::MysqlBackend::connect_with(options).await?)
        }
    })
}

/// Says each step and waits until it may go on.
pub fn migrate(url: &str) -> ExitCode {
    let report = block_on(async { connect(url, ask).await?.migrate(false).await });
    match report {
        Ok(_) => {
            println!("done");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Works until it is told to stop.
pub fn work(url: &str, file: &str) -> ExitCode {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(file).unwrap();
    let file = Arc::new(file);
    let outcome = block_on(async {
        let backend = connect(url, |_| ()).await?;
        let handler = move |context: Context, _: u64| {
            let file = file.clone();
            async move {
                let line = format!("{} {}\n", context.job().proof.job, context.attempt());
                (&*file).write_all(line.as_bytes()).map_err(JobError::new)?;
                Ok::<_, JobError>(())
            }
        };
        let worker = Worker::builder(backend)
            .queue("jobs")
            .handler("k", handler)
            .concurrency(2)
            .prefetch(0)
            .build()?;
        turno::signals::shutdown_on_signals(worker.handle())?;
        worker.run().await.map(drop)
    });
    if let Err(error) = &outcome {
        eprintln!("{error}");
    }
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A migration of the new program, seen from the test.
pub struct Migration {
    running: Running,
    answers: BufReader<std::process::ChildStdout>,
}

impl Migration {
    /// Starts one; it stops before its first step.
    pub fn start(url: &str) -> Self {
        let mut running = Running::start(piped(&[MIGRATE, url]));
        let answers = BufReader::new(running.stdout.take().unwrap());
        Migration { running, answers }
    }

    /// The step that it has come to; `None` when it is done.
    pub fn step(&mut self) -> Option<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        match line.trim_end() {
            "done" => None,
            "" => panic!("the migration failed: {}", self.error()),
            step => Some(step.to_owned()),
        }
    }

    /// Lets it go on with the step.
    pub fn go_on(&mut self) {
        self.running.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// Lets it run up to this step.
    pub fn run_to(&mut self, wanted: &str) {
        while let Some(step) = self.step() {
            if step == wanted {
                return;
            }
            self.go_on();
        }
        panic!("the migration has no step {wanted}");
    }

    /// Lets it run to its end.
    pub fn finish(mut self) {
        while self.step().is_some() {
            self.go_on();
        }
        assert!(self.running.wait().unwrap().success());
    }

    /// SIGKILL, and waits for its end.
    pub fn kill(mut self) {
        let child: &mut Child = &mut self.running;
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn error(&mut self) -> String {
        let mut text = String::new();
        self.running.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

/// A worker of the new program.
pub fn worker(url: &str, file: &str) -> Running {
    Running::start(piped(&[WORK, url, file]))
}

fn piped(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn ask(step: &str) {
    println!("{step}");
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}
