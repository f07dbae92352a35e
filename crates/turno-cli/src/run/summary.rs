//! How a run ended: counts and the dead lines, from the records.

use std::io::{self, Write};

use serde::Serialize;
use turno::{BoxedBackend, JobId, State, limits};

use super::args::Args;
use super::progress::Progress;
use super::{identity, records};
use crate::exit::Exit;
use crate::output::one_line;

/// Dead lines that are shown.
const DEAD_SHOWN: usize = 10;

/// The end of a run.
#[derive(Debug, Serialize)]
pub struct Summary {
    run: String,
    queue: String,
    /// Lines of the input.
    lines: u64,
    /// Lines that succeeded in this run.
    succeeded: u64,
    /// Lines of the input that were done before it, or by another run of the same name beside it.
    done_before: u64,
    /// Dead lines of this name, whenever they died.
    dead: u64,
    /// Cancelled lines of this name.
    cancelled: u64,
    /// Failed attempts of this run that were tried again.
    retries: u64,
    /// Whether a signal stopped it.
    interrupted: bool,
    dead_lines: Vec<DeadLine>,
}

#[derive(Debug, Serialize)]
struct DeadLine {
    id: JobId,
    #[serde(skip)]
    line: String,
    error: Option<String>,
}

impl Summary {
    /// Looks at the records.
    pub async fn collect(
        backend: &BoxedBackend,
        args: &Args,
        progress: &Progress,
        signal: Option<i32>,
    ) -> turno::Result<Self> {
        let queue = args.queue();
        let counts = progress.counts().clone();
        let mut known = counts.known;
        let (mut dead, mut dead_lines, mut before) = (0, Vec::new(), None);
        loop {
            let page = records::page(backend, &queue, State::Dead, before).await?;
            before = page.next(limits::PAGE_ROWS_MAX);
            dead += page.jobs.len() as u64;
            for job in &page.jobs {
                known.remove(&job.id);
                if dead_lines.len() < DEAD_SHOWN {
                    let line = identity::shown(&job.kind, job.payload.as_deref());
                    dead_lines.push(DeadLine { id: job.id, line, error: job.error.clone() });
                }
            }
            if before.is_none() {
                break;
            }
        }
        let cancelled = records::ids(backend, &queue, State::Cancelled).await?;
        cancelled.iter().for_each(|id| _ = known.remove(id));
        if signal.is_some() {
            for state in [State::Scheduled, State::Ready, State::Running] {
                records::ids(backend, &queue, state).await?.iter().for_each(|id| _ = known.remove(id));
            }
        }
        Ok(Summary {
            run: args.name.clone(),
            queue,
            lines: counts.lines,
            succeeded: counts.succeeded,
            done_before: known.len() as u64,
            dead,
            cancelled: cancelled.len() as u64,
            retries: counts.retries,
            interrupted: signal.is_some(),
            dead_lines,
        })
    }

    /// The status it leads to when nothing else went wrong.
    pub fn exit(&self) -> Exit {
        if self.dead + self.cancelled > 0 { Exit::BadNews } else { Exit::Ok }
    }

    /// Prints it to standard error.
    pub fn print(&self, json: bool) {
        let text = match json {
            true => serde_json::to_string(self).unwrap_or_else(|error| error.to_string()),
            false => self.text(),
        };
        // Nobody is left to be told if standard error is closed.
        let _ = writeln!(io::stderr(), "{text}");
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for dead in &self.dead_lines {
            let error = one_line(dead.error.as_deref().unwrap_or_default(), 200);
            text.push_str(&format!("turno: dead: job {}: {}: {error}\n", dead.id, dead.line));
        }
        if self.dead > self.dead_lines.len() as u64 {
            text.push_str(&format!(
                "turno: all dead lines: turno job list --state dead --queue {}\n",
                self.queue
            ));
        }
        let Summary { lines, succeeded, done_before, dead, cancelled, retries, .. } = self;
        text.push_str(&format!(
            "turno: {lines} lines: {succeeded} done now, {done_before} done before, {dead} dead, {cancelled} cancelled; \
             {retries} retries"
        ));
        if self.interrupted {
            text.push_str("; stopped by a signal, the same command goes on");
        } else if self.dead > 0 {
            text.push_str("; --retry-dead runs the dead ones again");
        }
        text
    }
}
