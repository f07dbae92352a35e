//! One line: its command as a child, its output passed on whole, and the verdict.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tempfile::SpooledTempFile;
use turno::{CancelCause, ClaimedJob, Context, JobError, JobResult};

use super::args::Args;
use super::identity;
use super::progress::Progress;
use super::stop::Watch;
use crate::child::{self, Attempt, Children, Ended, Fence, Limits, Spec, Stopped};
use crate::exit::{Exit, Fault};
use crate::parse;

/// Runs lines.
pub struct Runner {
    command: Vec<OsString>,
    program: Option<PathBuf>,
    separator: u8,
    limits: Limits,
    children: Arc<Children>,
    progress: Arc<Progress>,
    watch: Watch,
    printing: Arc<Mutex<()>>,
}

impl Runner {
    /// Runs the command of these options.
    pub fn new(
        args: &Args,
        program: Option<PathBuf>,
        children: Arc<Children>,
        progress: Arc<Progress>,
        watch: Watch,
    ) -> Self {
        Runner {
            command: args.command.clone(),
            program,
            separator: args.separator(),
            limits: args.limits(),
            children,
            progress,
            watch,
            printing: Arc::default(),
        }
    }

    /// What the worker must have as a hook.
    pub fn fence(&self) -> Fence {
        self.children.fence()
    }

    /// Runs one line.
    pub async fn run(&self, context: Context, job: ClaimedJob) -> JobResult {
        let line = identity::bytes_of(&job).map_err(|why| JobError::new(why).never())?;
        let spec = self.spec(&job, line);
        let attempt = child::attempt(&self.children, &context, spec, self.limits).await;
        if self.children.unguarded() {
            // Without the guard a crash would leave grandchildren behind, and an attempt that found it gone was none.
            return Err(
                self.stop(Fault::new(Exit::Internal, "the guard process is gone; start the run again"))
            );
        }
        let verdict = match attempt {
            Err(error) => {
                Err(JobError::new(format!("cannot run {}: {error}", self.command[0].to_string_lossy())))
            }
            Ok(attempt) => self.verdict(attempt).await,
        };
        if let Err(error) = &verdict
            && error.is_charged()
        {
            self.progress.failed(&job, error.text());
        }
        verdict
    }

    fn spec(&self, job: &ClaimedJob, mut line: Vec<u8>) -> Spec {
        let mut words = self.command.iter().map(|arg| identity::replace(arg, &line));
        let name = words.next().unwrap_or_default();
        let args = words.collect();
        let program = self.program.clone().map_or_else(|| name.clone(), PathBuf::into_os_string);
        line.push(self.separator);
        Spec { program, name, args, env: child::environment(job), input: line }
    }

    async fn verdict(&self, attempt: Attempt) -> JobResult {
        let Attempt { mut ended, stopped } = attempt;
        let failure = match stopped {
            // What such an attempt wrote is dropped: the line runs again and writes it all.
            Some(Stopped::Cancelled(CancelCause::Shutdown)) => return Err(JobError::release()),
            Some(Stopped::Cancelled(cause @ CancelCause::LeaseLost)) => return Err(JobError::new(cause)),
            Some(Stopped::Cancelled(cause)) => Some(format!("stopped, since {cause}")),
            Some(Stopped::TimedOut) => {
                Some(format!("timed out after {}", parse::show(self.limits.timeout.unwrap_or_default())))
            }
            None if ended.status.success() => None,
            None => Some(ended.failure()),
        };
        if let Err(error) = self.pass_on(ended).await {
            let message = format!("cannot write standard output: {error}");
            return Err(self.stop(Fault::new(Exit::InputOutput, message)));
        }
        failure.map_or(Ok(None), |failure| Err(JobError::new(failure)))
    }

    /// Writes the output of a child, while no other child's is written.
    async fn pass_on(&self, ended: Ended) -> io::Result<()> {
        let (printing, bar) = (Arc::clone(&self.printing), self.progress.bar());
        let write = move || {
            let _one = printing.lock().unwrap_or_else(PoisonError::into_inner);
            let Ended { mut stdout, mut stderr, .. } = ended;
            let mut both = || {
                // Standard error closed is nobody's loss; standard output closed is.
                let _ = copy(&mut stderr, &mut io::stderr().lock());
                copy(&mut stdout, &mut io::stdout().lock())
            };
            match bar {
                Some(bar) => bar.suspend(both),
                None => both(),
            }
        };
        tokio::task::spawn_blocking(write).await.unwrap_or_else(|_| Err(io::Error::other("writing panicked")))
    }

    /// Stops the run for a reason that is not the line's fault, and gives the line back.
    fn stop(&self, fault: Fault) -> JobError {
        if let Some(stop) = self.watch.stop() {
            stop.stop(fault);
        }
        JobError::release()
    }
}

fn copy(from: &mut SpooledTempFile, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = [0; 16 << 10];
    loop {
        match from.read(&mut buffer)? {
            0 => return to.flush(),
            n => to.write_all(&buffer[..n])?,
        }
    }
}
