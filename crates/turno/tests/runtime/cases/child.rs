//! Cases that need a process of their own: signals, and handlers that take the process with them. The child is this
//! very test program, started with [`ROLE`] in its environment.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use turno::{Context, JobError, NewJob, State, Verb};

use super::cases;
use crate::kit::{LIMIT, SLACK, until};
use crate::rig::Rig;

/// What the child shall be; it finds its database and queue beside it.
const ROLE: &str = "TURNO_RUNTIME_CHILD";
const URL: &str = "TURNO_RUNTIME_CHILD_URL";
const QUEUE: &str = "TURNO_RUNTIME_CHILD_QUEUE";

/// What a child says when a handler has started.
const STARTED: &str = "a handler has started";

cases![
    a_handler_that_kills_its_process_starts_exactly_max_attempts_times,
    sigterm_shuts_down_gracefully_and_a_second_one_at_once,
];

/// Runs the child's role, if this process is one.
pub fn main() -> Option<ExitCode> {
    let role = std::env::var(ROLE).ok()?;
    let (url, queue) = (std::env::var(URL).ok()?, std::env::var(QUEUE).ok()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().ok()?;
    let result = runtime.block_on(work(&role, &url, queue));
    Some(match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    })
}

async fn work(role: &str, url: &str, queue: String) -> turno::Result<()> {
    let builder =
        turno::Worker::builder(turno::connect(url).await?).queue(queue).lease(Duration::from_secs(60));
    let worker = match role {
        "abort" => builder.raw_handler(|_, _| async { std::process::abort() }).build()?,
        _ => builder
            .shutdown_grace(Duration::from_secs(if role == "stubborn" { 600 } else { 5 }))
            .handler("obeys", |context: Context, (): ()| async move {
                println!("{STARTED}");
                context.cancelled().await;
                Err::<(), _>(JobError::new("as asked"))
            })
            .handler("ignores", |_: Context, (): ()| async {
                println!("{STARTED}");
                std::future::pending::<Result<(), JobError>>().await
            })
            .build()?,
    };
    let signals = turno::signals::shutdown_on_signals(worker.handle())?;
    let report = worker.run().await?;
    assert_eq!(signals.first(), Some(15));
    assert!(report.left_to_lease.is_empty());
    Ok(())
}

fn spawn(rig: &Rig, role: &str) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .env(ROLE, role)
        .env(URL, &rig.url)
        .env(QUEUE, &rig.queue)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the child starts")
}

/// Waits until the child says that so many handlers have started.
async fn started(child: &mut Child, handlers: usize) {
    let output = child.stdout.take().expect("its output is read once");
    let count = tokio::task::spawn_blocking(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        lines.filter(|line| line == STARTED).take(handlers).count()
    });
    let count = tokio::time::timeout(LIMIT, count).await.expect("within the limit").expect("no panic");
    assert_eq!(count, handlers, "the child ended before its handlers started");
}

/// Waits for the child's end; a child that does not end is killed, and the case fails.
async fn ended(child: &mut Child) -> std::process::ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("the child can be asked") {
            return status;
        }
        if began.elapsed() > LIMIT {
            child.kill().expect("the child can be killed");
            child.wait().expect("the child ends");
            panic!("the child did not end within {LIMIT:?}");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn terminate(child: &Child) {
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process id")).expect("a process id");
    kill_process(pid, Signal::TERM).expect("the signal is sent");
}

/// Known fault B09; rule F1.
async fn a_handler_that_kills_its_process_starts_exactly_max_attempts_times(rig: Arc<Rig>) {
    let id = rig.enqueue_job(NewJob::new(&rig.queue, "k", "1").max_attempts(3)).await;
    for round in 1..=3 {
        let mut child = spawn(&rig, "abort");
        assert!(!ended(&mut child).await.success(), "the handler takes its process with it");
        assert_eq!(rig.job(id).await.attempt, round);
        rig.age_leases(Duration::from_secs(3600)).await;
        assert_eq!(rig.backend.reap(1000, Duration::ZERO).await.unwrap().jobs.len(), 1);
        rig.age_schedule(Duration::from_secs(3600)).await;
    }
    assert_eq!(rig.state(id).await, State::Dead);
    let attempts = rig.backend.attempts(id).await.unwrap();
    assert_eq!(attempts.len(), 3);
    for attempt in attempts {
        assert_eq!((attempt.verb, attempt.charged), (Verb::Expire, true));
        assert!(attempt.started_at.is_some() && attempt.worker.is_some());
    }
}

/// Known fault B52.
async fn sigterm_shuts_down_gracefully_and_a_second_one_at_once(rig: Arc<Rig>) {
    let obeys = rig.enqueue("obeys", "null").await;
    let mut child = spawn(&rig, "gentle");
    started(&mut child, 1).await;
    terminate(&child);
    assert!(ended(&mut child).await.success());
    assert_eq!(rig.state(obeys).await, State::Ready, "released on the way out");
    let ignores = rig.enqueue("ignores", "null").await;
    let mut child = spawn(&rig, "stubborn");
    started(&mut child, 2).await;
    terminate(&child);
    until("the obedient one is released", || async { rig.backend.attempts(obeys).await.unwrap().len() >= 2 })
        .await;
    assert_eq!(rig.state(ignores).await, State::Running, "it has a grace of ten minutes");
    let second = Instant::now();
    terminate(&child);
    assert!(ended(&mut child).await.success());
    assert!(second.elapsed() < Duration::from_secs(1) + SLACK, "{:?}", second.elapsed());
    assert_ne!(rig.state(ignores).await, State::Running);
}
