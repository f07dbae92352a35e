//! One attempt of a job as a child: start it, stop it when the worker says so or its time is over, and say how it
//! ended. It refuses to decide what becomes of the job.

use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use turno::{CancelCause, ClaimedJob, Context};

use super::{Child, Children, Ended, Spec};

/// How often a stopping child's lease is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How much of the end of standard error is kept with a failure, in bytes.
const TAIL_BYTES: u64 = 4096;

/// How an attempt ended.
#[derive(Debug)]
pub struct Attempt {
    /// The child's end.
    pub ended: Ended,
    /// Why it was stopped; `None` if it ended by itself. What ended only after it was told to stop has not done its
    /// work, whatever its exit status says.
    pub stopped: Option<Stopped>,
}

/// Why a child was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// The worker said so.
    Cancelled(CancelCause),
    /// It took longer than its time.
    TimedOut,
}

/// The limits of one attempt.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long it may take; the job's own limit still holds.
    pub timeout: Option<Duration>,
    /// How long it may go on after the worker began to shut down.
    pub grace: Duration,
    /// How long it has between SIGTERM and SIGKILL.
    pub kill_after: Duration,
}

impl Limits {
    /// How long the worker is to wait for an attempt whose time is over.
    pub const CANCEL_GRACE: Duration = Duration::from_secs(5);
    /// The same, less the time that it takes to see the end of a killed group.
    const KILL_AFTER_DEADLINE: Duration = Duration::from_secs(4);
}

/// Runs a child for the job of this context. Returns only when nothing of the child's group is left.
pub async fn attempt<S>(
    children: &Children,
    context: &Context<S>,
    spec: Spec,
    limits: Limits,
) -> io::Result<Attempt> {
    let mut child = children.spawn(spec, &context.proof())?;
    let why = tokio::select! {
        biased;
        ended = child.ended() => return Ok(Attempt { ended: ended?, stopped: None }),
        () = context.cancelled() => Stopped::Cancelled(cause(context)),
        () = timeout(limits.timeout) => Stopped::TimedOut,
    };
    if why == Stopped::Cancelled(CancelCause::Shutdown)
        && let Some(ended) =
            ends_within(&mut child, limits.grace, || cause(context) == CancelCause::Shutdown).await
    {
        return Ok(Attempt { ended: ended?, stopped: None });
    }
    child.terminate();
    let kill_after = match context.cancel_cause() {
        Some(CancelCause::Deadline) => limits.kill_after.min(Limits::KILL_AFTER_DEADLINE),
        _ => limits.kill_after,
    };
    // Once the lease is lost somebody else may start the job, so nothing of it may go on here.
    let is_ours = || context.cancel_cause() != Some(CancelCause::LeaseLost);
    let ended = match ends_within(&mut child, kill_after, is_ours).await {
        Some(ended) => ended?,
        None => {
            child.kill();
            child.ended().await?
        }
    };
    let why = if is_ours() { why } else { Stopped::Cancelled(CancelCause::LeaseLost) };
    Ok(Attempt { ended, stopped: Some(why) })
}

/// The variable by which a process is told the trace that it belongs to, as OpenTelemetry has it.
pub const TRACEPARENT: &str = "TRACEPARENT";

/// The variables that every child is given.
pub fn environment(job: &ClaimedJob) -> Vec<(&'static str, String)> {
    let mut variables = vec![
        ("TURNO_JOB_ID", job.proof.job.to_string()),
        ("TURNO_ATTEMPT", job.proof.attempt.to_string()),
        ("TURNO_OPERATION_ID", job.operation_id.to_string()),
    ];
    let trace = crate::otel::current_traceparent().or_else(|| job.traceparent.clone());
    variables.extend(trace.map(|trace| (TRACEPARENT, trace)));
    variables
}

fn cause<S>(context: &Context<S>) -> CancelCause {
    context.cancel_cause().unwrap_or(CancelCause::Shutdown)
}

/// Waits for the child as long as `go_on` says so, at most `limit`.
async fn ends_within(
    child: &mut Child,
    limit: Duration,
    go_on: impl Fn() -> bool,
) -> Option<io::Result<Ended>> {
    let until = tokio::time::Instant::now() + limit;
    while go_on() && tokio::time::Instant::now() < until {
        if let Ok(ended) = tokio::time::timeout(LOOK_EVERY, child.ended()).await {
            return Some(ended);
        }
    }
    None
}

async fn timeout(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

impl Ended {
    /// The exit status in words, with the end of standard error.
    pub fn failure(&mut self) -> String {
        let status = match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("exit status {code}"),
            (None, Some(signal)) => format!("killed by signal {signal}"),
            (None, None) => "ended in an unknown way".to_owned(),
        };
        match self.stderr_tail() {
            Ok(tail) if !tail.is_empty() => format!("{status}: {tail}"),
            _ => status,
        }
    }

    fn stderr_tail(&mut self) -> io::Result<String> {
        let length = self.stderr.seek(SeekFrom::End(0))?;
        self.stderr.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        self.stderr.read_to_end(&mut bytes)?;
        self.stderr.seek(SeekFrom::Start(0))?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_start_matches(char::REPLACEMENT_CHARACTER).trim().to_owned();
        Ok(if length > TAIL_BYTES { format!("...{text}") } else { text })
    }
}
