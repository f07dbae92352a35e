//! The kinds whose jobs workers give back again and again and never complete (rule V4).

use turno_contract::{Count, JobId, Result, Unhandled, limits};

use crate::rows::Columns;
use crate::work::Work;

/// The kinds of this queue that nobody handles, as far as the rows can tell.
pub(crate) fn unhandled(work: &Work, queue: &str) -> Result<Vec<Unhandled>> {
    work.rows("unhandled.kinds", &[(":queue", &queue)], |row| {
        let mut columns = Columns::of(row);
        let kind = columns.text()?;
        let n = columns.value::<i64>()?.max(0) as u64;
        let jobs = Count { n, capped: n >= limits::STATS_COUNT_CAP };
        Ok(Unhandled { queue: queue.to_owned(), kind, jobs, example: JobId(columns.value()?) })
    })
}
