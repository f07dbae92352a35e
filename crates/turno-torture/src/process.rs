//! One worker process: starting it, hearing it, and the signals it is sent. It refuses to judge its end.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;

use crate::WORKER_COMMAND;
use crate::protocol::{Setup, Told};

/// How far the clock of a faked worker is off, in seconds.
pub(crate) const CLOCK_SHIFT_S: i64 = 3600;
/// How much of a worker's standard error is kept.
const STDERR_BYTES_MAX: u64 = 16_384;

/// The library that shifts a process's clock, if it is installed.
pub(crate) fn faketime() -> Option<PathBuf> {
    const NAME: &str = "faketime/libfaketimeMT.so.1";
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"]
        .into_iter()
        .map(|folder| Path::new(folder).join(NAME))
        .find(|path| path.exists())
}

/// A process that runs; everything here works on a shared reference.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    stdin: Mutex<ChildStdin>,
}

/// Its other half: what it says, and its end.
#[derive(Debug)]
pub(crate) struct Ending {
    child: Child,
    pub(crate) lines: Lines<BufReader<ChildStdout>>,
    stderr: tokio::task::JoinHandle<String>,
}

/// Starts a worker, with a wrong clock if asked for.
pub(crate) async fn start(program: &Path, setup: &Setup, wrong_clock: bool) -> io::Result<(Process, Ending)> {
    let mut command = Command::new(program);
    command.arg(WORKER_COMMAND).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true).env_remove("TURNO_URL");
    // A Ctrl-C at the terminal is the supervisor's to answer.
    command.process_group(0);
    if let Some(library) = faketime().filter(|_| wrong_clock) {
        command
            .env("LD_PRELOAD", library)
            .env("FAKETIME", format!("{CLOCK_SHIFT_S:+}s"))
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("DONT_FAKE_MONOTONIC", "1");
    }
    let mut child = command.spawn()?;
    let missing = || io::Error::other("the worker has no pipes");
    let mut stdin = child.stdin.take().ok_or_else(missing)?;
    let stdout = child.stdout.take().ok_or_else(missing)?;
    let mut stderr = child.stderr.take().ok_or_else(missing)?;
    let pid = child.id().ok_or_else(missing)?;
    let mut line = serde_json::to_vec(setup)?;
    line.push(b'\n');
    stdin.write_all(&line).await?;
    let stderr = tokio::spawn(async move {
        let mut text = Vec::new();
        // What was read until the pipe broke is what there is to show; the rest is drained so that nobody blocks.
        let _ = (&mut stderr).take(STDERR_BYTES_MAX).read_to_end(&mut text).await;
        let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
        String::from_utf8_lossy(&text).into_owned()
    });
    let process = Process { pid, stdin: Mutex::new(stdin) };
    Ok((process, Ending { child, lines: BufReader::new(stdout).lines(), stderr }))
}

impl Ending {
    /// Waits for its end; answers how it ended, and what it wrote to standard error.
    pub(crate) async fn wait(mut self) -> io::Result<(ExitStatus, String)> {
        let status = self.child.wait().await?;
        Ok((status, self.stderr.await.unwrap_or_default()))
    }
}

impl Process {
    /// Tells it something. A process that has ended hears nothing.
    pub(crate) async fn tell(&self, told: Told) {
        let Ok(mut line) = serde_json::to_vec(&told) else { return };
        line.push(b'\n');
        let _ = self.stdin.lock().await.write_all(&line).await;
    }

    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Stops it, and comes back when it stands.
    pub(crate) async fn stop(&self) {
        self.signal(Signal::STOP);
        for _ in 0..200 {
            match state_of(self.pid) {
                Some('T') | Some('Z') | None => return,
                Some(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid as i32) else { return };
        // It may have ended at this very moment, and is not reaped before that is noticed.
        let _ = kill_process(pid, signal);
    }

    /// Its resident memory in KiB.
    pub(crate) fn memory_kib(&self) -> Option<u64> {
        memory_kib(self.pid)
    }
}

/// The resident memory of a process in KiB.
pub(crate) fn memory_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// The letter of its state: `T` for stopped.
fn state_of(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}
