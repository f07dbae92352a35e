//! Children: commands that run for a job, each in a process group of its own, and none of which outlives this process.
//!
//! Three things see to that. The kernel kills a child when the thread that started it ends (`PR_SET_PDEATHSIG`), so
//! every child has a thread that lives exactly as long. A guard process kills the whole group of every child that is
//! still listed when this process is gone, however it went, or stopped for so long that the child's lease ends. And a
//! child's group is killed when the child itself ends.
//! What leaves its process group (`setsid`, a shell with job control) is out of reach, and that is stated in `--help`.

mod fence;
mod guard;
mod process;
mod supervise;

use std::ffi::OsString;
use std::io;
use std::process::ExitStatus;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustix::fd::OwnedFd;
use tempfile::SpooledTempFile;
use tokio::sync::oneshot;
use turno::Proof;

pub use fence::Fence;
pub use guard::main as guard;
pub use supervise::{Attempt, Limits, Stopped, TRACEPARENT, attempt, environment};

use guard::Guard;

/// What to run.
#[derive(Debug)]
pub struct Spec {
    /// The program's file, or a name to look for.
    pub program: OsString,
    /// The name that it is given.
    pub name: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// What is added to the environment.
    pub env: Vec<(&'static str, String)>,
    /// What it reads from standard input.
    pub input: Vec<u8>,
}

/// How a child ended.
#[derive(Debug)]
pub struct Ended {
    /// Its status.
    pub status: ExitStatus,
    /// What it wrote to standard output, read from the start.
    pub stdout: SpooledTempFile,
    /// What it wrote to standard error, read from the start.
    pub stderr: SpooledTempFile,
}

/// All the children of this process.
#[derive(Debug)]
pub struct Children {
    guard: Arc<Guard>,
    fence: Fence,
    live: Arc<Live>,
}

impl Children {
    /// Starts the guard for a worker with this lease.
    pub fn start(lease: Duration) -> io::Result<Self> {
        let guard = Arc::new(Guard::start()?);
        let fence = Fence::new(Arc::clone(&guard), lease);
        Ok(Children { guard, fence, live: Arc::default() })
    }

    /// What the worker must have as a hook, so that the guard knows the leases.
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Starts a child for the job of this proof. Errors come with [`Child::ended`].
    pub fn spawn(&self, spec: Spec, proof: &Proof) -> io::Result<Child> {
        let (control, commands) = pipe()?;
        let (sender, ended) = oneshot::channel();
        let (guard, one) = (Arc::clone(&self.guard), One::new(&self.live));
        let lease_end = self.fence.lease_end(proof);
        std::thread::Builder::new().name("child".into()).stack_size(256 << 10).spawn(move || {
            let ended = process::run(spec, lease_end, commands, &guard);
            // The count goes down only when nothing of the child is left.
            drop(one);
            // Nobody waits for a child that was dropped.
            let _ = sender.send(ended);
        })?;
        Ok(Child { control, ended })
    }

    /// Whether the guard has gone, so that nothing would kill grandchildren if this process died.
    pub fn unguarded(&self) -> bool {
        self.guard.is_gone()
    }

    /// Waits until every child has ended, at most this long; answers whether they have.
    pub fn join(&self, limit: Duration) -> bool {
        let live = self.live.count.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.live.changed.wait_timeout_while(live, limit, |live| *live > 0);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

/// A running child. Dropping it kills its group.
#[derive(Debug)]
pub struct Child {
    control: OwnedFd,
    ended: oneshot::Receiver<io::Result<Ended>>,
}

impl Child {
    /// Sends SIGTERM to its group.
    pub fn terminate(&self) {
        self.command(process::TERMINATE);
    }

    /// Sends SIGKILL to its group.
    pub fn kill(&self) {
        self.command(process::KILL);
    }

    /// Completes when the child has ended and nothing of its group is left. May be dropped and called again.
    pub async fn ended(&mut self) -> io::Result<Ended> {
        (&mut self.ended).await.unwrap_or_else(|_| Err(io::Error::other("the child's thread panicked")))
    }

    fn command(&self, command: u8) {
        // The other end is gone once the child has ended, and then there is nothing left to signal.
        let _ = rustix::io::write(&self.control, &[command]);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// How many children's threads are at work.
#[derive(Debug, Default)]
struct Live {
    count: Mutex<usize>,
    changed: Condvar,
}

struct One(Arc<Live>);

impl One {
    fn new(live: &Arc<Live>) -> Self {
        *live.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        One(Arc::clone(live))
    }
}

impl Drop for One {
    fn drop(&mut self) {
        *self.0.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.changed.notify_all();
    }
}

/// A pipe that no `exec` hands on: first the end to write to, then the end to read from.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    Ok((write, read))
}
