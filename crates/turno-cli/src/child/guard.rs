//! The guard: a small process of the same binary in a session of its own. Through a pipe whose other end this process
//! holds (and its children until they `exec`) it is told of every child's process group and its lease. At the end of
//! the pipe the process has died or is done, and every group still listed is killed; so is a group whose lease ends
//! while nobody renews it, since then the process is stopped. It refuses to do anything else.
//!
//! Lines: `+group end` lists a group, `-group` takes it off, `=end` renews all; ends are in ms of the monotonic clock.

use std::collections::HashMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsRawFd, OwnedFd, RawFd};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::fence::{self, Millis};
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
        // A guard that does not read must not hold up the heartbeats.
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Guard { pipe: Some(pipe), process, gone: AtomicBool::new(false) })
    }

    /// The descriptor that a child writes its line to between fork and exec. The guard outlives every child.
    pub fn descriptor(&self) -> RawFd {
        self.pipe.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Takes a group off the list: nothing of it is left, and its number may be given to others from now on.
    pub fn remove(&self, group: Pid) {
        self.tell(Line::new(b'-', &[number(group)]));
    }

    /// All leases were renewed and end then.
    pub fn renew(&self, end: Millis) {
        self.tell(Line::new(b'=', &[end]));
    }

    fn tell(&self, line: Line) {
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
    bytes: [u8; Line::BYTES_MAX],
    start: usize,
}

impl Line {
    /// A sign, two numbers of 20 digits, a space between them and the end.
    const BYTES_MAX: usize = 43;

    /// The line that lists a group.
    pub fn add(group: Pid, end: Millis) -> Self {
        Line::new(b'+', &[number(group), end])
    }

    /// At most two numbers behind a sign.
    fn new(sign: u8, numbers: &[u64]) -> Self {
        let mut line = Line { bytes: [b'\n'; Line::BYTES_MAX], start: Line::BYTES_MAX - 1 };
        for (n, number) in numbers.iter().take(2).enumerate().rev() {
            let mut left = *number;
            loop {
                line.push(b'0' + (left % 10) as u8);
                left /= 10;
                if left == 0 {
                    break;
                }
            }
            if n > 0 {
                line.push(b' ');
            }
        }
        line.push(sign);
        line
    }

    /// The line with its end.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn push(&mut self, byte: u8) {
        self.start -= 1;
        self.bytes[self.start] = byte;
    }
}

fn number(group: Pid) -> u64 {
    u64::from(group.as_raw_nonzero().get().unsigned_abs())
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
    let mut groups = Groups::default();
    watch(&mut groups);
    for group in groups.ends.keys() {
        kill(*group);
    }
    Exit::Ok
}

/// Reads the pipe to its end, and kills groups whose lease ends.
fn watch(groups: &mut Groups) {
    let (stdin, mut rest, mut buffer) = (io::stdin(), Vec::new(), [0; 4096]);
    loop {
        groups.expired(fence::now()).for_each(kill);
        let left = groups.next_end().map(|end| end.saturating_sub(fence::now()).clamp(1, 60_000));
        let limit =
            left.map(|ms| Timespec { tv_sec: (ms / 1000) as i64, tv_nsec: (ms % 1000 * 1_000_000) as i64 });
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], limit.as_ref()) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => return,
        }
        match rustix::io::read(&stdin, &mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(n) => rest.extend_from_slice(&buffer[..n]),
        }
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            groups.line(&rest[..end]);
            rest.drain(..=end);
        }
    }
}

fn kill(group: Pid) {
    // A group that has gone by itself is what was wanted.
    let _ = rustix::process::kill_process_group(group, Signal::KILL);
}

/// The listed groups with the ends of their leases; `None` once that was acted on.
#[derive(Debug, Default)]
struct Groups {
    ends: HashMap<Pid, Option<Millis>>,
    renewed: Millis,
}

impl Groups {
    fn line(&mut self, line: &[u8]) {
        let Some((sign, numbers)) = line.split_first() else { return };
        let mut numbers = numbers
            .split(|byte| *byte == b' ')
            .map(|digits| std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u64>().ok()));
        let (first, second) = (numbers.next().flatten(), numbers.next().flatten());
        // A signal to "group 1" would be one to every process.
        let group = first.and_then(|n| i32::try_from(n).ok()).filter(|n| *n > 1).and_then(Pid::from_raw);
        match (sign, group, first, second) {
            (b'+', Some(group), _, Some(end)) => _ = self.ends.insert(group, Some(end)),
            (b'-', Some(group), ..) => _ = self.ends.remove(&group),
            (b'=', _, Some(end), _) => self.renewed = self.renewed.max(end),
            _ => {}
        }
    }

    fn next_end(&self) -> Option<Millis> {
        self.ends.values().flatten().map(|end| (*end).max(self.renewed)).min()
    }

    /// The groups whose lease has ended, each once.
    fn expired(&mut self, now: Millis) -> impl Iterator<Item = Pid> {
        let renewed = self.renewed;
        self.ends
            .iter_mut()
            .filter_map(move |(group, end)| end.take_if(|end| (*end).max(renewed) <= now).map(|_| *group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(n: i32) -> Pid {
        Pid::from_raw(n).unwrap()
    }

    fn groups(pipe: &[u8]) -> Groups {
        let mut groups = Groups::default();
        pipe.split(|byte| *byte == b'\n').for_each(|line| groups.line(line));
        groups
    }

    #[test]
    fn the_list_is_what_was_added_and_not_removed() {
        let mut pipe = Vec::new();
        for line in [Line::add(pid(10), 0), Line::add(pid(i32::MAX), u64::MAX), Line::new(b'-', &[10])] {
            pipe.extend_from_slice(line.bytes());
        }
        assert_eq!(pipe, b"+10 0\n+2147483647 18446744073709551615\n-10\n");
        assert_eq!(groups(&pipe).ends, HashMap::from([(pid(i32::MAX), Some(u64::MAX))]));
        assert!(groups(b"\n+\n+0 1\n+1 1\nx\n+-3 1\n+7\n+99999999999 1\n").ends.is_empty());
    }

    #[test]
    fn a_lease_that_nobody_renews_ends_once() {
        let mut groups = groups(b"+7 100\n+8 300\n=200\n");
        assert_eq!((groups.next_end(), groups.expired(199).count()), (Some(200), 0));
        assert_eq!(groups.expired(200).collect::<Vec<_>>(), [pid(7)]);
        assert_eq!((groups.next_end(), groups.expired(200).count()), (Some(300), 0));
        groups.line(b"=400");
        assert_eq!((groups.next_end(), groups.expired(399).count()), (Some(400), 0));
    }
}
