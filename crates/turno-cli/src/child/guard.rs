//! The guard: a small process of the same binary in a session of its own. It reads `+group` and `-group` lines from a
//! pipe whose other end this process holds (and its children until they `exec`). At the end of the pipe the process
//! has died or is done, and every group still listed is killed. It refuses to do anything else.

use std::collections::HashSet;
use std::io::{self, BufRead};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fd::{AsRawFd, OwnedFd, RawFd};
use rustix::process::{Pid, Signal};

use crate::exit::Exit;

/// This process's end of the guard. Dropping it ends the guard.
#[derive(Debug)]
pub struct Guard {
    pipe: Option<OwnedFd>,
    process: Child,
    gone: AtomicBool,
}

impl Guard {
    /// Starts the guard process.
    pub fn start() -> io::Result<Self> {
        let (pipe, read) = super::pipe()?;
        // By this name the binary is found even if its file was replaced or removed in the meantime.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("turno").arg("__guard").env_remove("TURNO_URL");
        command.stdin(read).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: setsid is one system call, which is safe between fork and exec.
        unsafe { command.pre_exec(|| rustix::process::setsid().map(drop).map_err(io::Error::from)) };
        let process = command.spawn()?;
        Ok(Guard { pipe: Some(pipe), process, gone: AtomicBool::new(false) })
    }

    /// The descriptor that a child writes its line to between fork and exec. The guard outlives every child.
    pub fn descriptor(&self) -> RawFd {
        self.pipe.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Takes a group off the list: nothing of it is left, and its number may be given to others from now on.
    pub fn remove(&self, group: Pid) {
        let line = Line::new(b'-', group);
        let written = self.pipe.as_ref().map(|pipe| rustix::io::write(pipe, line.bytes()));
        if !matches!(written, Some(Ok(_))) {
            self.gone.store(true, Ordering::SeqCst);
        }
    }

    /// Whether the guard was found gone.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.pipe = None;
        // It ends by itself at the end of the pipe; it is waited for only so that no zombie is left.
        let _ = self.process.wait();
    }
}

/// One line to the guard, made without allocation, since a child makes one between fork and exec.
pub struct Line {
    bytes: [u8; 16],
    start: usize,
}

impl Line {
    /// `+group` or `-group`.
    pub fn new(sign: u8, group: Pid) -> Self {
        let (mut bytes, mut start, mut number) = ([b'\n'; 16], 15, group.as_raw_nonzero().get());
        while number > 0 {
            start -= 1;
            bytes[start] = b'0' + (number % 10) as u8;
            number /= 10;
        }
        bytes[start - 1] = sign;
        Line { bytes, start: start - 1 }
    }

    /// The line with its end.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// What the guard process does.
pub fn main() -> Exit {
    // Whoever stops turno by name stops the guard, too, which must come last.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    if let Ok(runtime) = &runtime {
        use tokio::signal::unix::{SignalKind, signal};
        let _entered = runtime.enter();
        let kinds =
            [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()];
        // A signal that is listened to no longer ends the process, and nobody looks at what comes.
        for kind in kinds {
            let _ = signal(kind);
        }
    }
    for group in listed(io::stdin().lock()) {
        // A group that has gone by itself is what was wanted.
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
    Exit::Ok
}

/// The groups that are on the list at the end of the pipe.
fn listed(reader: impl BufRead) -> HashSet<Pid> {
    let mut groups = HashSet::new();
    for line in reader.split(b'\n').map_while(Result::ok) {
        let Some((sign, number)) = line.split_first() else { continue };
        let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
        // A signal to "group 1" would be one to every process.
        let Some(group) = number.filter(|number| *number > 1).and_then(Pid::from_raw) else { continue };
        match sign {
            b'+' => groups.insert(group),
            _ => groups.remove(&group),
        };
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_what_was_added_and_not_removed() {
        let pid = |n| Pid::from_raw(n).unwrap();
        let mut pipe = Vec::new();
        for (sign, n) in [(b'+', 10), (b'+', i32::MAX), (b'-', 10), (b'+', 7), (b'-', 8)] {
            pipe.extend_from_slice(Line::new(sign, pid(n)).bytes());
        }
        assert_eq!(pipe, b"+10\n+2147483647\n-10\n+7\n-8\n");
        assert_eq!(listed(&pipe[..]), HashSet::from([pid(7), pid(i32::MAX)]));
        assert_eq!(listed(&b"\n+\n+0\n+1\nx\n+-3\n"[..]), HashSet::new());
    }
}
