//! Proving that no row is out of reach of every rule (rule V3).

use turno_contract::{Finding, JobId, Result};

use crate::work::{Params, Work};

/// Each check is a statement of `audit.sql`, with what its violation means.
const CHECKS: &[(&str, &str)] = &[
    (
        "running_half",
        "a job must be running if and only if it has a token and a lease end; no rule ends this one",
    ),
    ("lease_too_long", "a lease ends after claim + max_run + 10 s: a worker can hold this job for too long"),
    (
        "rank_wrong",
        "a ready job stands at the wrong place of its queue: its rank is not run_at + priority x step",
    ),
    ("budget_spent", "a waiting job has no attempts left; it should be dead"),
    (
        "ended_twice",
        "a job is unfinished and finished at once; what a settle answers depends on where it looks",
    ),
    (
        "key_orphan",
        "an idempotency key stands for a job of which there is no record; its enqueue can never succeed",
    ),
    ("attempt_orphan", "attempts are kept of a job of which there is no record; nothing will remove them"),
    ("attempt_ahead", "a recorded attempt is later than the job's own count"),
    (
        "attempt_missing",
        "a waiting job's last attempt was not recorded; a repeat of its settle is taken for theft",
    ),
    ("due_ahead", "a ready job is due in the future: it would run too early"),
    ("outcome_wrong", "a finished job's outcome does not fit how its last attempt ended"),
];

/// What is wrong; empty if all is well.
pub(crate) fn audit(work: &Work) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (check, meaning) in CHECKS {
        let params: Params = if *check == "due_ahead" { &[(":now", &work.now)] } else { &[] };
        let (rows, example) = work.one(&format!("audit.{check}"), params, |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?))
        })?;
        if rows > 0 {
            findings.push(Finding {
                check: (*check).to_owned(),
                rows: rows as u64,
                example: example.map(JobId),
                meaning: (*meaning).to_owned(),
            });
        }
    }
    Ok(findings)
}
