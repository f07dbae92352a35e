//! Batches of jobs, read on a thread of their own, so that workers and signals need not wait for a slow input.

use std::time::Duration;

use tokio::sync::mpsc;
use turno::NewJob;

use super::{Line, Lines};

/// How long a batch that is not full waits for more before it goes.
const PATIENCE: Duration = Duration::from_millis(20);
/// Payload bytes after which a batch is full.
const BATCH_BYTES: usize = 4 << 20;
/// Entries that are read ahead of the batch.
const READ_AHEAD: usize = 64;

/// A job with the number of its line.
#[derive(Debug)]
pub struct Entry {
    /// The line.
    pub number: u64,
    /// What it says.
    pub job: NewJob,
}

/// Some entries that go into one transaction.
pub type Batch = Vec<Entry>;

/// The batches of an input.
pub struct Batches {
    entries: mpsc::Receiver<anyhow::Result<Entry>>,
    batch_rows: usize,
}

/// Reads lines on a thread; `entry` makes a job of each, or skips it with `None`. The first error ends the input.
pub fn read<R, F>(mut lines: Lines<R>, batch_rows: usize, mut entry: F) -> std::io::Result<Batches>
where
    R: std::io::BufRead + Send + 'static,
    F: FnMut(&Line) -> anyhow::Result<Option<NewJob>> + Send + 'static,
{
    let (sender, entries) = mpsc::channel(READ_AHEAD);
    std::thread::Builder::new().name("input".into()).spawn(move || {
        loop {
            let next = match lines.next_line() {
                Ok(None) => return,
                Err(error) => Err(error),
                Ok(Some(line)) => match entry(&line) {
                    Ok(None) => continue,
                    Ok(Some(job)) => Ok(Entry { number: line.number, job }),
                    Err(error) => Err(error.context(format!("line {}", line.number))),
                },
            };
            let ended = next.is_err();
            if sender.blocking_send(next).is_err() || ended {
                return;
            }
        }
    })?;
    Ok(Batches { entries, batch_rows })
}

impl Batches {
    /// The next batch; `None` at the end of the input. With an error nothing of the batch it would have been in is
    /// answered, and no more is read.
    pub async fn next_batch(&mut self) -> anyhow::Result<Option<Batch>> {
        let Some(first) = self.entries.recv().await.transpose()? else { return Ok(None) };
        let mut bytes = first.job.payload.len();
        let mut batch = vec![first];
        while batch.len() < self.batch_rows && bytes < BATCH_BYTES {
            match tokio::time::timeout(PATIENCE, self.entries.recv()).await {
                Ok(Some(entry)) => {
                    let entry = entry?;
                    bytes += entry.job.payload.len();
                    batch.push(entry);
                }
                Ok(None) | Err(_) => break,
            }
        }
        Ok(Some(batch))
    }
}
