//! The ledger of effects outside the database, an append-only file, and the two kinds of sink that read it: one that
//! applies an operation id once, and one that also refuses attempts lower than one it has seen. It refuses to know
//! what the database says.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use turno::Token;
use uuid::Uuid;

/// The first digits of a token's hash: enough to tell tokens apart, worth nothing as a proof.
pub(crate) fn token_hash(token: Token) -> String {
    Sha256::digest(token.as_uuid().as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// What a handler writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Effect {
    pub(crate) operation_id: Uuid,
    pub(crate) job: i64,
    pub(crate) attempt: i64,
    pub(crate) token_hash: String,
    pub(crate) worker: String,
    /// Whether this only shows the attempt to the fence, before the handler works.
    pub(crate) opens: bool,
}

impl Effect {
    fn line(&self) -> String {
        let word = if self.opens { "open" } else { "effect" };
        let Effect { operation_id, job, attempt, token_hash, worker, .. } = self;
        format!("{word} {operation_id} {job} {attempt} {token_hash} {worker}\n")
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let opens = match words.next()? {
            "open" => true,
            "effect" => false,
            _ => return None,
        };
        Some(Effect {
            opens,
            operation_id: words.next()?.parse().ok()?,
            job: words.next()?.parse().ok()?,
            attempt: words.next()?.parse().ok()?,
            token_hash: words.next()?.to_owned(),
            worker: words.next()?.to_owned(),
        })
    }
}

/// The writing end, in a worker.
#[derive(Debug)]
pub(crate) struct Ledger(File);

impl Ledger {
    pub(crate) fn open(path: &str) -> io::Result<Self> {
        Ok(Ledger(OpenOptions::new().append(true).create(true).open(path)?))
    }

    /// One line is one write, so that lines of many processes do not mix.
    pub(crate) fn write(&self, effect: &Effect) -> io::Result<()> {
        (&self.0).write_all(effect.line().as_bytes())
    }
}

/// What a sink did with an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sunk {
    Applied,
    /// Applied before under this operation id.
    Duplicate,
    /// From an attempt lower than one that the sink has seen.
    Fenced,
}

/// What the sinks know of one operation id.
#[derive(Debug, Default, Clone)]
pub(crate) struct Operation {
    pub(crate) job: i64,
    pub(crate) highest: i64,
    /// Which attempt was applied by the sink that only deduplicates.
    pub(crate) applied_by: Option<i64>,
    /// The same for the sink with a fence.
    pub(crate) fenced_applied_by: Option<i64>,
    pub(crate) lines: Vec<(Effect, Option<Sunk>)>,
}

/// The reading end, in the supervisor.
#[derive(Debug)]
pub(crate) struct Sinks {
    path: PathBuf,
    read_to: u64,
    rest: Vec<u8>,
    pub(crate) operations: HashMap<Uuid, Operation>,
    by_job: HashMap<i64, Uuid>,
    /// Effects that the deduplicating sink was shown again, and effects that the fence refused.
    pub(crate) duplicates: u64,
    pub(crate) fenced: u64,
}

impl Sinks {
    pub(crate) fn new(path: &Path) -> Self {
        Sinks {
            path: path.to_owned(),
            read_to: 0,
            rest: Vec::new(),
            operations: HashMap::new(),
            by_job: HashMap::new(),
            duplicates: 0,
            fenced: 0,
        }
    }

    /// Reads on to the end of the file; answers lines that contradict what was read before.
    pub(crate) fn read_on(&mut self) -> io::Result<Vec<String>> {
        let Ok(mut file) = File::open(&self.path) else { return Ok(Vec::new()) };
        file.seek(SeekFrom::Start(self.read_to))?;
        let mut bytes = std::mem::take(&mut self.rest);
        self.read_to += file.read_to_end(&mut bytes)? as u64;
        let mut faults = Vec::new();
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for line in String::from_utf8_lossy(&bytes[..end]).lines() {
            match Effect::parse(line) {
                Some(effect) => faults.extend(self.take(effect)),
                None => faults.push(format!("a line of the ledger is torn: {line:?}")),
            }
        }
        self.rest = bytes.split_off(end);
        Ok(faults)
    }

    /// Jobs that have shown an effect.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = i64> {
        self.by_job.keys().copied()
    }

    /// Forgets a job's effects.
    pub(crate) fn forget(&mut self, job: i64) {
        if let Some(operation_id) = self.by_job.remove(&job) {
            self.operations.remove(&operation_id);
        }
    }

    fn take(&mut self, effect: Effect) -> Option<String> {
        let operation = self.operations.entry(effect.operation_id).or_default();
        let mut fault = None;
        if operation.job == 0 {
            operation.job = effect.job;
            self.by_job.insert(effect.job, effect.operation_id);
        } else if operation.job != effect.job {
            let (a, b) = (operation.job, effect.job);
            fault = Some(format!("jobs {a} and {b} have the same operation id {}", effect.operation_id));
        }
        let lower = effect.attempt < operation.highest;
        operation.highest = operation.highest.max(effect.attempt);
        let sunk = (!effect.opens).then(|| {
            if operation.applied_by.replace(operation.applied_by.unwrap_or(effect.attempt)).is_some() {
                self.duplicates += 1;
            }
            match operation.fenced_applied_by {
                _ if lower => {
                    self.fenced += 1;
                    Sunk::Fenced
                }
                Some(_) => Sunk::Duplicate,
                None => {
                    operation.fenced_applied_by = Some(effect.attempt);
                    Sunk::Applied
                }
            }
        });
        operation.lines.push((effect, sunk));
        fault
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(attempt: i64, opens: bool) -> Effect {
        let operation_id = Uuid::from_u128(7);
        Effect { operation_id, job: 1, attempt, token_hash: "ab".into(), worker: "w".into(), opens }
    }

    #[test]
    fn the_fence_refuses_a_lower_attempt_and_the_other_sink_applies_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("effects");
        let ledger = Ledger::open(path.to_str().unwrap()).unwrap();
        let mut sinks = Sinks::new(&path);
        for (attempt, opens) in [(1, true), (2, true), (1, false), (2, false), (2, false)] {
            ledger.write(&effect(attempt, opens)).unwrap();
            assert!(sinks.read_on().unwrap().is_empty());
        }
        let operation = &sinks.operations[&Uuid::from_u128(7)];
        let sunk: Vec<_> = operation.lines.iter().filter_map(|(_, sunk)| *sunk).collect();
        assert_eq!(sunk, [Sunk::Fenced, Sunk::Applied, Sunk::Duplicate]);
        assert_eq!((operation.applied_by, operation.fenced_applied_by), (Some(1), Some(2)));
        assert_eq!((sinks.fenced, sinks.duplicates), (1, 2));
    }

    #[test]
    fn two_jobs_with_one_operation_id_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("effects");
        let ledger = Ledger::open(path.to_str().unwrap()).unwrap();
        ledger.write(&effect(1, true)).unwrap();
        ledger.write(&Effect { job: 2, ..effect(1, true) }).unwrap();
        assert_eq!(Sinks::new(&path).read_on().unwrap().len(), 1);
    }
}
