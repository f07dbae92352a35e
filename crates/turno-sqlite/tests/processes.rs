//! Several processes on one file: this test binary starts itself again as the others. Nobody starves, no job is run
//! twice, and what was answered survives a kill.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use turno_contract::{Backend, ClaimRequest, Completion, JobId, NewJob, SettledStatus};
use turno_sqlite::{SqliteBackend, SqliteOptions};

/// Where the other process finds its database; unset in an ordinary run of the tests.
const DATABASE: &str = "TURNO_TEST_SQLITE_DATABASE";
const PROCESSES: usize = 4;
const JOBS: usize = 400;

async fn connect(path: &Path) -> SqliteBackend {
    SqliteBackend::connect(path.to_str().unwrap(), SqliteOptions::default()).await.unwrap()
}

/// Another process, which does not outlive its test.
struct Part(Child);

impl Drop for Part {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts this binary again to run one of the parts below.
fn start(part: &str, database: &Path) -> Part {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", part, "--ignored", "--nocapture", "--test-threads=1"]);
    Part(command.env(DATABASE, database).stdout(Stdio::piped()).spawn().unwrap())
}

/// The numbers that a process printed behind a word, up to now or to its end.
fn numbers(text: &str, word: &str) -> Vec<i64> {
    let lines = text.lines().filter_map(|line| line.split_once(word));
    lines.map(|(_, number)| number.trim().parse().unwrap()).collect()
}

fn database() -> Option<std::path::PathBuf> {
    std::env::var_os(DATABASE).map(Into::into)
}

/// A part: takes jobs one at a time and completes them until there are none.
#[tokio::test]
#[ignore = "a part of the tests below, in a process of its own"]
async fn part_work() {
    let Some(database) = database() else { return };
    let backend = connect(&database).await;
    let mut longest = Duration::ZERO;
    loop {
        let begun = Instant::now();
        let jobs = backend.claim(&ClaimRequest::one("q", "w")).await.unwrap().jobs;
        longest = longest.max(begun.elapsed());
        let Some(job) = jobs.first() else { break };
        let begun = Instant::now();
        let settled = backend.complete("w", &[Completion { proof: job.proof, result: None }]).await.unwrap();
        longest = longest.max(begun.elapsed());
        assert_eq!(settled[0].status, SettledStatus::Done);
        println!("\ncompleted {}", job.proof.job);
    }
    println!("\nlongest {}", longest.as_millis());
}

/// A part: enqueues for ever, and says so after each answer.
#[tokio::test]
#[ignore = "a part of the tests below, in a process of its own"]
async fn part_enqueue() {
    let Some(database) = database() else { return };
    let backend = connect(&database).await;
    loop {
        let answer = backend.enqueue(&[NewJob::new("q", "k", "{}")]).await.unwrap();
        println!("\nenqueued {}", answer[0].id);
    }
}

/// Rules C1, E3. B32: four processes in a tight loop.
#[tokio::test]
async fn processes_share_the_jobs_and_nobody_starves() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue.db");
    let backend = connect(&path).await;
    backend.migrate(false).await.unwrap();
    backend.enqueue(&vec![NewJob::new("q", "k", "{}"); JOBS]).await.unwrap();
    let mut children: Vec<Part> = (0..PROCESSES).map(|_| start("part_work", &path)).collect();
    let mut completed = Vec::new();
    for Part(child) in &mut children {
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(child.wait().unwrap().success(), "{text}");
        let longest = numbers(&text, "longest ")[0];
        assert!(longest < 5_000, "one call took {longest} ms");
        completed.extend(numbers(&text, "completed "));
    }
    completed.sort_unstable();
    completed.dedup();
    assert_eq!(completed.len(), JOBS, "each job once");
    assert_eq!(backend.stats(Duration::from_secs(600)).await.unwrap()[0].succeeded.n, JOBS as u64);
    assert_eq!(backend.audit().await.unwrap(), []);
}

/// Rule E1: what was answered is in the database, whatever becomes of the process.
#[tokio::test]
async fn what_was_answered_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue.db");
    let backend = connect(&path).await;
    backend.migrate(false).await.unwrap();
    let mut part = start("part_enqueue", &path);
    let lines = BufReader::new(part.0.stdout.take().unwrap()).lines();
    let mut answered = Vec::new();
    for line in lines.map_while(Result::ok) {
        answered.extend(numbers(&line, "enqueued "));
        if answered.len() == 20 {
            part.0.kill().unwrap();
        }
    }
    part.0.wait().unwrap();
    assert!(answered.len() >= 20, "{answered:?}");
    for id in answered {
        assert!(backend.job(JobId(id)).await.unwrap().is_some(), "job {id} was answered");
    }
    backend.enqueue(&[NewJob::new("q", "k", "{}")]).await.expect("the lock died with its process");
    assert_eq!(backend.audit().await.unwrap(), []);
}
