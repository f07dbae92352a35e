//! One child on one thread: start it, feed it, read it, signal it, and see its whole group end.

use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, PidfdFlags, Signal};
use tempfile::SpooledTempFile;

use super::fence::Millis;
use super::guard::{Guard, Line};
use super::{Ended, Spec};

/// Command: SIGTERM to the group.
pub const TERMINATE: u8 = b'T';
/// Command: SIGKILL to the group.
pub const KILL: u8 = b'K';

/// Output that is kept in memory; what is longer goes to a temporary file.
const MEMORY_BYTES: usize = 256 << 10;
/// How long the output of an ended child is waited for, if something that left its group holds it open.
const DRAIN: Duration = Duration::from_millis(500);

/// Runs a child to its end on this thread, which must live as long as the child: the kernel kills the child when the
/// thread that started it ends.
pub fn run(spec: Spec, lease_end: Millis, commands: OwnedFd, guard: &Guard) -> io::Result<Ended> {
    let mut command = Command::new(&spec.program);
    command.arg0(&spec.name).args(&spec.args).envs(spec.env);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let parent = rustix::process::getpid();
    let descriptor = guard.descriptor();
    // SAFETY: only system calls and the stack are used, which is safe between fork and exec; the descriptor is the
    // guard's pipe, which is open as long as `guard` lives.
    unsafe { command.pre_exec(move || enter_group(parent, lease_end, BorrowedFd::borrow_raw(descriptor))) };
    let mut child = command.spawn()?;
    let group = Pid::from_child(&child);
    let mut pipes = Pipes::new(&mut child, spec.input)?;
    let outcome = pipes.follow(group, &commands);
    // Whatever happened, nothing of the group may be left. Until the child is waited for, its number is not given to
    // anybody else, so this reaches only the group and what is on the guard's list is only the group.
    let _ = rustix::process::kill_process_group(group, Signal::KILL);
    if outcome.is_err() {
        // Killing is no matter of course for a child that has become another user.
        let _ = child.kill();
    }
    guard.remove(group);
    let status = child.wait()?;
    outcome?;
    pipes.drain()?;
    pipes.into_ended(status)
}

/// Runs in the child between fork and exec.
fn enter_group(parent: Pid, lease_end: Millis, guard: BorrowedFd<'_>) -> io::Result<()> {
    rustix::process::setpgid(None, None)?;
    rustix::io::write(guard, Line::add(rustix::process::getpid(), lease_end).bytes())?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // A parent that died before the line above sends no signal any more.
    match rustix::process::getppid() == Some(parent) {
        true => Ok(()),
        false => Err(io::Error::from(Errno::SRCH)),
    }
}

/// The three pipes of a child.
struct Pipes {
    input: Option<(OwnedFd, Vec<u8>, usize)>,
    outputs: [Output; 2],
}

struct Output {
    pipe: Option<OwnedFd>,
    spool: SpooledTempFile,
}

impl Pipes {
    fn new(child: &mut std::process::Child, input: Vec<u8>) -> io::Result<Self> {
        let missing = || io::Error::other("a pipe of the child is missing");
        let stdin = OwnedFd::from(child.stdin.take().ok_or_else(missing)?);
        let stdout = OwnedFd::from(child.stdout.take().ok_or_else(missing)?);
        let stderr = OwnedFd::from(child.stderr.take().ok_or_else(missing)?);
        for pipe in [&stdin, &stdout, &stderr] {
            ioctl_fionbio(pipe, true)?;
        }
        let output = |pipe| Output { pipe: Some(pipe), spool: SpooledTempFile::new(MEMORY_BYTES) };
        Ok(Pipes { input: Some((stdin, input, 0)), outputs: [output(stdout), output(stderr)] })
    }

    /// Feeds and reads the child and obeys commands until the child itself has ended. It is not waited for.
    fn follow(&mut self, group: Pid, commands: &OwnedFd) -> io::Result<()> {
        let ended = rustix::process::pidfd_open(group, PidfdFlags::empty())?;
        let mut commands = Some(commands);
        loop {
            let ready = self.poll(Some(&ended), commands, None)?;
            if ready.command && !obey(commands, group) {
                commands = None;
            }
            self.transfer()?;
            if ready.ended {
                return Ok(());
            }
        }
    }

    /// Reads what is left of the output of a child that has ended.
    fn drain(&mut self) -> io::Result<()> {
        self.input = None;
        let until = Instant::now() + DRAIN;
        loop {
            self.transfer()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.outputs.iter().all(|output| output.pipe.is_none()) {
                return Ok(());
            }
            self.poll(None, None, Some(left))?;
        }
    }

    fn poll(
        &self,
        ended: Option<&OwnedFd>,
        commands: Option<&OwnedFd>,
        limit: Option<Duration>,
    ) -> io::Result<Ready> {
        let mut fds = Vec::with_capacity(5);
        let watched = [ended, commands];
        fds.extend(watched.into_iter().flatten().map(|fd| PollFd::new(fd, PollFlags::IN)));
        fds.extend(self.input.iter().map(|(pipe, ..)| PollFd::new(pipe, PollFlags::OUT)));
        let outputs = self.outputs.iter().filter_map(|output| output.pipe.as_ref());
        fds.extend(outputs.map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        match poll(&mut fds, limit.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Ready::default()),
            Err(error) => return Err(error.into()),
        }
        let mut fired = fds.iter().map(|fd| !fd.revents().is_empty());
        let mut take = |watched: bool| watched && fired.next().unwrap_or(false);
        Ok(Ready { ended: take(ended.is_some()), command: take(commands.is_some()) })
    }

    /// Moves what can be moved without waiting.
    fn transfer(&mut self) -> io::Result<()> {
        if let Some((pipe, bytes, sent)) = &mut self.input {
            // A child that does not read its input is its own business.
            let more = feed(pipe.as_fd(), bytes, sent).unwrap_or(false);
            if !more {
                self.input = None;
            }
        }
        for output in &mut self.outputs {
            output.read()?;
        }
        Ok(())
    }

    fn into_ended(self, status: std::process::ExitStatus) -> io::Result<Ended> {
        let [mut stdout, mut stderr] = self.outputs.map(|output| output.spool);
        stdout.seek(SeekFrom::Start(0))?;
        stderr.seek(SeekFrom::Start(0))?;
        Ok(Ended { status, stdout, stderr })
    }
}

#[derive(Default)]
struct Ready {
    ended: bool,
    command: bool,
}

impl Output {
    fn read(&mut self) -> io::Result<()> {
        let mut buffer = [0; 16 << 10];
        // A child that never stops writing must not keep this thread from hearing that it shall be killed.
        for _ in 0..16 {
            let Some(pipe) = &self.pipe else { return Ok(()) };
            match rustix::io::read(pipe, &mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(n) => self.spool.write_all(&buffer[..n])?,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Writes as much as the pipe takes; answers whether there is more.
fn feed(pipe: BorrowedFd<'_>, bytes: &[u8], sent: &mut usize) -> io::Result<bool> {
    while *sent < bytes.len() {
        match rustix::io::write(pipe, &bytes[*sent..]) {
            Ok(n) => *sent += n,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

/// Carries out the commands that have come; answers whether there may be more.
fn obey(commands: Option<&OwnedFd>, group: Pid) -> bool {
    let mut buffer = [0; 16];
    let Some(n) = commands.and_then(|commands| rustix::io::read(commands, &mut buffer).ok()) else {
        return true;
    };
    let received = &buffer[..n];
    // The child has not been waited for, so the group's number is still its own.
    if received.contains(&KILL) {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    } else if received.contains(&TERMINATE) {
        let _ = rustix::process::kill_process_group(group, Signal::TERM);
    }
    n > 0
}
