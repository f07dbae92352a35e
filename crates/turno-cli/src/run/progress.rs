//! What a run has done so far, for its bar, its lines and its summary. It writes to standard error only.

use std::collections::HashSet;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use turno::{ClaimedJob, Enqueued, Event, Hook, JobId, SettledStatus, State, Verb};

use super::identity;
use super::stop::Stop;

/// How often the bar is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// How often a line tells the progress where no bar can be drawn.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// The counts of a run.
#[derive(Debug, Default, Clone)]
pub struct Counts {
    /// Lines that were read and enqueued.
    pub lines: u64,
    /// Of these, lines that had no record before.
    pub new: u64,
    /// Jobs that were there before and have not ended here.
    pub known: HashSet<JobId>,
    /// Jobs that succeeded here.
    pub succeeded: u64,
    /// Jobs that died here.
    pub dead: u64,
    /// Failed attempts here that are tried again.
    pub retries: u64,
    /// Jobs that ended here. One that an earlier run left may end before its line is read again.
    pub ended: HashSet<JobId>,
}

/// Shared by the feeder, the workers and the summary.
#[derive(Debug)]
pub struct Progress {
    counts: Mutex<Counts>,
    bar: Option<ProgressBar>,
    quiet: bool,
}

impl Progress {
    /// A bar on a terminal, lines elsewhere, nothing if `quiet`.
    pub fn new(quiet: bool) -> Self {
        let bar = (!quiet && io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::no_length();
            let style = ProgressStyle::with_template("{spinner} {wide_bar} {pos}/{len} {msg}");
            if let Ok(style) = style {
                bar.set_style(style);
            }
            bar
        });
        Progress { counts: Mutex::default(), bar, quiet }
    }

    /// The bar, which is to be put aside while anything else is written to the terminal.
    pub fn bar(&self) -> Option<ProgressBar> {
        self.bar.clone()
    }

    /// The counts now.
    pub fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A batch was enqueued.
    pub fn fed(&self, answers: &[Enqueued]) {
        let mut counts = self.counts();
        counts.lines += answers.len() as u64;
        for answer in answers {
            match answer.created {
                true => counts.new += 1,
                false if counts.ended.contains(&answer.id) => {}
                false => _ = counts.known.insert(answer.id),
            }
        }
    }

    /// An attempt failed.
    pub fn failed(&self, job: &ClaimedJob, error: &str) {
        let left = job.max_attempts.saturating_sub(job.failures + 1);
        let then = if left > 0 { "will be tried again" } else { "is dead" };
        let (line, error) =
            (identity::shown(&job.kind, Some(&job.payload)), crate::output::one_line(error, 200));
        self.say(&format!("turno: {line}: {error}; attempt {} failed, the line {then}", job.proof.attempt));
    }

    /// An error that does not end the run at once; told even if quiet.
    pub fn error(&self, error: &anyhow::Error) {
        self.write(&format!("turno: {}", crate::output::message(error, None)));
    }

    /// Removes the bar.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn say(&self, line: &str) {
        if !self.quiet {
            self.write(line);
        }
    }

    fn write(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprint_line(line)),
            None => eprint_line(line),
        }
    }

    fn settled(&self, job: JobId, verb: Verb, status: SettledStatus, state: Option<State>) {
        if !matches!(status, SettledStatus::Done | SettledStatus::Already) {
            return;
        }
        let mut counts = self.counts();
        match state {
            Some(State::Succeeded) => counts.succeeded += 1,
            Some(State::Dead) => counts.dead += 1,
            Some(State::Cancelled) => {}
            _ => {
                counts.retries += u64::from(verb == Verb::Fail);
                return;
            }
        }
        counts.ended.insert(job);
        counts.known.remove(&job);
    }

    fn draw(&self, bar: &ProgressBar) {
        let counts = self.counts();
        let ended = counts.ended.len() as u64;
        bar.set_length(counts.new.max(ended));
        bar.set_position(ended);
        bar.set_message(format!("retries {} dead {}", counts.retries, counts.dead));
    }

    fn tell(&self) -> String {
        let counts = self.counts();
        let Counts { lines, succeeded, dead, retries, .. } = &*counts;
        format!(
            "turno: {lines} lines read; {succeeded} done, {dead} dead, {retries} retries in this run so far"
        )
    }
}

/// Looks after the database, and draws the bar, or tells the progress now and then if it has changed. Never ends by itself.
pub async fn tick(progress: Arc<Progress>, stop: Arc<Stop>) {
    let (mut told, mut told_at) = (String::new(), Instant::now());
    loop {
        tokio::time::sleep(DRAW_EVERY).await;
        if let Some(line) = stop.look() {
            progress.say(&line);
        }
        match &progress.bar {
            Some(bar) => progress.draw(bar),
            None if progress.quiet || told_at.elapsed() < TELL_EVERY => {}
            None => {
                let text = progress.tell();
                if text != told {
                    progress.say(&text);
                }
                (told, told_at) = (text, Instant::now());
            }
        }
    }
}

/// Hears the worker's events.
pub struct Listener(pub Arc<Progress>);

impl Hook for Listener {
    fn event(&self, _at: Instant, event: &Event<'_>) {
        if let Event::Settled { proof, verb, status, state, .. } = event {
            self.0.settled(proof.job, *verb, *status, *state);
        }
    }
}

fn eprint_line(line: &str) {
    // Nobody is left to be told if standard error is closed.
    let _ = writeln!(io::stderr(), "{line}");
}
