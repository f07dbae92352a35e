//! Standard input into the queue, in batches of idempotent inserts, while workers are at work already.

use std::io::{self, BufReader};
use std::time::{Duration, Instant};

use turno::{BoxedBackend, Enqueued, NewJob, limits};

use super::args::Args;
use super::identity::Identifier;
use super::progress::Progress;
use super::stop::patience;
use crate::child::TRACEPARENT;
use crate::exit::Fault;
use crate::input::{self, Batch, Lines};

/// Lines of one batch.
const BATCH_ROWS: usize = 500;
/// The longest line: what is longer as a payload is refused by its own limit.
const LINE_BYTES_MAX: usize = limits::PAYLOAD_BYTES_MAX_DEFAULT + (64 << 10);

/// Enqueues every line. Errors name the line and say what was accepted before.
pub async fn feed(args: &Args, backend: &BoxedBackend, progress: &Progress) -> anyhow::Result<()> {
    let reader = BufReader::with_capacity(1 << 16, io::stdin());
    let lines = Lines::new(reader, args.separator(), LINE_BYTES_MAX);
    let mut identifier = Identifier::new(args);
    let trace = std::env::var(TRACEPARENT).ok();
    let mut batches = input::read(lines, BATCH_ROWS, move |line| {
        let mut job = identifier.job(line)?;
        if let Some(job) = &mut job {
            job.traceparent = job.traceparent.take().or_else(|| trace.clone());
        }
        Ok(job)
    })?;
    let mut last_line = 0;
    loop {
        let batch = batches.next_batch().await.map_err(|error| explain(error, last_line))?;
        let Some(batch) = batch else { return Ok(()) };
        let answers = enqueue(backend, &batch).await.map_err(|error| explain(error, last_line))?;
        last_line = batch.last().map_or(last_line, |entry| entry.number);
        progress.fed(&answers);
    }
}

/// Every job has an idempotency key, so an enqueue whose outcome is unknown is made again.
async fn enqueue(backend: &BoxedBackend, batch: &Batch) -> anyhow::Result<Vec<Enqueued>> {
    let jobs: Vec<NewJob> = batch.iter().map(|entry| entry.job.clone()).collect();
    let began = Instant::now();
    let mut pause = Duration::from_millis(50);
    loop {
        match backend.enqueue(&jobs).await {
            Ok(answers) => return Ok(answers),
            Err(error) if error.is_transient() && began.elapsed() < patience(backend.engine(), &error) => {
                tracing::warn!(%error, "the input waits for the database");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(2));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn explain(error: anyhow::Error, last_line: u64) -> anyhow::Error {
    let accepted = match last_line {
        0 => "no line was accepted".to_owned(),
        last => format!(
            "lines 1 to {last} were accepted and stay; correct the input and run the same command again"
        ),
    };
    let text = crate::output::message(&error, None);
    Fault::new(crate::exit::of(&error), format!("standard input: {text}; {accepted}")).into()
}
