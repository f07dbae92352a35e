//! What a run says when it is over: as text, as JSON, or as a page. It refuses to call anything clean that was not run.

use std::fmt::Write as _;

use serde::Serialize;
use turno::Engine;

use crate::options::Fault;
use crate::story::Violation;

/// How often one fault struck at one place.
#[derive(Debug, Clone, Serialize)]
pub struct FaultLine {
    /// The fault.
    pub fault: Fault,
    /// Where it struck.
    pub place: String,
    /// How often it did.
    pub injected: u64,
    /// How often it was drawn and found nothing to strike in time.
    pub not_reached: u64,
}

/// A fault that was not injected, and why.
#[derive(Debug, Clone, Serialize)]
pub struct NotRun {
    /// The fault.
    pub fault: Fault,
    /// Why.
    pub reason: String,
}

/// The last words of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What the plan was drawn from.
    pub seed: u64,
    /// Which database.
    pub engine: Engine,
    /// The command that repeats it.
    pub repeat: String,
    /// How long faults were injected, in seconds.
    pub seconds: f64,
    /// Worker processes at a time.
    pub workers: usize,
    /// The lease in milliseconds.
    pub lease_ms: u64,
    /// Faults by kind and place.
    pub faults: Vec<FaultLine>,
    /// Faults that were not injected.
    pub not_run: Vec<NotRun>,
    /// Jobs that were enqueued.
    pub enqueued: u64,
    /// Of these, jobs that succeeded.
    pub succeeded: u64,
    /// Jobs that are dead.
    pub dead: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
    /// Attempts of all these jobs.
    pub attempts: u64,
    /// Attempts that ended with their lease.
    pub expired: u64,
    /// Enqueues whose answer was lost and which were repeated.
    pub lost_enqueue_answers: u64,
    /// Settles that were told that they had been accepted before.
    pub already: u64,
    /// Results of workers that were refused.
    pub refused: u64,
    /// Wrong proofs that were refused.
    pub forged_refused: u64,
    /// Effects that the deduplicating sink was shown again.
    pub duplicate_effects: u64,
    /// Effects that the fence refused.
    pub fenced_effects: u64,
    /// Calls of workers that failed and were made again.
    pub transient_errors: u64,
    /// Worker processes that were started.
    pub processes: u64,
    /// Settles by the worker with the wrong clock.
    pub wrong_clock_settles: u64,
    /// Attempts that a fault cost, and that were made up for.
    pub recoveries: u64,
    /// From the fault until the job was taken up again or had ended: median, in milliseconds.
    pub recover_p50_ms: u64,
    /// The same, 99th percentile.
    pub recover_p99_ms: u64,
    /// From the last fault until everything had ended, in milliseconds.
    pub settled_within_ms: u64,
    /// The most memory that a worker had, in KiB.
    pub memory_max_kib: u64,
    /// The most memory that the supervisor had, in KiB.
    pub own_memory_max_kib: u64,
    /// The most jobs whose stories the supervisor kept at a time.
    pub jobs_kept_max: usize,
    /// How many that have ended it keeps at most; of the others it knows their number and a sum.
    pub jobs_kept_bound: usize,
    /// What is not as it must be.
    pub violations: Vec<Violation>,
}

impl Report {
    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_text(&mut text);
        text
    }

    fn write_text(&self, text: &mut String) -> std::fmt::Result {
        for violation in &self.violations {
            writeln!(text, "VIOLATION {}: {}", violation.check, violation.text)?;
            for line in &violation.story {
                writeln!(text, "    {line}")?;
            }
        }
        writeln!(text, "faults, by kind and place:")?;
        for line in &self.faults {
            write!(text, "  {:<10} {:<30} {:>4}", line.fault, line.place, line.injected)?;
            match line.not_reached {
                0 => writeln!(text)?,
                n => writeln!(text, "  ({n} found nothing to strike)")?,
            }
        }
        for line in &self.not_run {
            writeln!(text, "  {:<10} not run: {}", line.fault, line.reason)?;
        }
        self.write_figures(text)?;
        match self.is_clean() {
            true => writeln!(
                text,
                "clean: every check held ({:.0} s on {}, seed {})",
                self.seconds, self.engine, self.seed
            ),
            false => writeln!(
                text,
                "{} violations with seed {}; the jobs are kept in the database\nrepeat it: {}",
                self.violations.len(),
                self.seed,
                self.repeat
            ),
        }
    }

    fn write_figures(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "jobs: {} enqueued ({} enqueues without an answer, repeated): {} succeeded, {} dead, {} cancelled",
            self.enqueued, self.lost_enqueue_answers, self.succeeded, self.dead, self.cancelled
        )?;
        writeln!(
            text,
            "attempts: {}, of which {} ended with their lease; {} settles repeated and recognised",
            self.attempts, self.expired, self.already
        )?;
        writeln!(
            text,
            "refused: {} late results, {} wrong proofs; effects: {} fenced, {} shown twice and applied once",
            self.refused, self.forged_refused, self.fenced_effects, self.duplicate_effects
        )?;
        writeln!(
            text,
            "recoveries: {}, p50 {} ms, p99 {} ms with a lease of {} ms; all settled {} ms after the last fault",
            self.recoveries, self.recover_p50_ms, self.recover_p99_ms, self.lease_ms, self.settled_within_ms
        )?;
        writeln!(
            text,
            "processes: {} for {} workers, {} calls made again, {} settles under a wrong clock",
            self.processes, self.workers, self.transient_errors, self.wrong_clock_settles
        )?;
        writeln!(
            text,
            "memory: at most {} MiB in a worker, {} MiB in the supervisor, which kept the stories of at most {} jobs \
             (bound: those that are open, and {} that have ended)",
            self.memory_max_kib / 1024,
            self.own_memory_max_kib / 1024,
            self.jobs_kept_max,
            self.jobs_kept_bound
        )
    }

    /// The same as a page.
    pub fn html(&self) -> String {
        let text = self.text().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let verdict = if self.is_clean() { "clean" } else { "violations" };
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>turno torture: {verdict}</title></head>\n\
             <body><h1>turno torture: {verdict}</h1>\n<p>{} on seed {}</p>\n<pre>{text}</pre></body></html>\n",
            self.engine, self.seed
        )
    }
}
