//! Whether sleepers have reason to wake (rules W1, W2).

use turno_contract::Result;

use crate::work::Work;

/// Whether one of these queues has due jobs that a claim could take.
pub(crate) fn due(work: &Work, queues: &[String]) -> Result<bool> {
    let queues = serde_json::to_string(queues).expect("strings are JSON");
    work.one("wait.due", &[(":queues", &queues), (":now", &work.now)], |row| row.get(0))
}
