//! Schedules from an application, and the tick that every worker does. It joins the [`calendar`](crate::calendar), which says when,
//! to the database, which says whether: no other clock decides, nobody leads, and anybody may tick (rules K1, K2).

use std::time::Duration;

use time::OffsetDateTime;
use turno_contract::{
    BoxedBackend, DueSchedule, Error, ErrorKind, Fired, Firing, PutAnswer, Result, Schedule, ScheduleRecord,
    limits,
};

use crate::calendar::{self, Calendar};

/// The schedules of an installation.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let backend = turno::connect(&format!("sqlite:{}", folder.path().join("jobs.db").display())).await?;
/// # backend.migrate(false).await?;
/// use turno::{Missed, Schedule, Schedules};
///
/// let nightly = Schedule::new("nightly report", "0 6 * * *", "reports", "nightly")
///     .zone("Europe/Berlin")
///     .payload(r#"{"day": "{instant}"}"#)
///     .missed(Missed::All(7));
/// // Deployments may repeat this: the same again moves nothing.
/// Schedules::new(backend.clone()).put(&nightly).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })
/// # }
/// ```
///
/// Pausing, removing and listing are the backend's own operations
/// ([`schedule_pause`](turno_contract::Backend::schedule_pause) and its kind).
#[derive(Clone)]
pub struct Schedules {
    backend: BoxedBackend,
}

/// What one tick has done.
#[derive(Debug)]
#[non_exhaustive]
pub struct Ticked {
    /// Jobs that it made of instants.
    pub jobs: u64,
    /// Schedules that it moved on, with jobs or without.
    pub moved: u64,
    /// Schedules that somebody else had moved on, or was about to.
    pub already: u64,
    /// Schedules that cannot be fired, and why: they stay due, and are seen to be late.
    pub refused: Vec<(String, Error)>,
    /// When the next schedule will be due, as far as this tick has seen.
    pub next_in: Option<Duration>,
}

impl Schedules {
    /// The schedules of this backend's installation.
    pub fn new(backend: BoxedBackend) -> Self {
        Schedules { backend }
    }

    /// Creates or changes a schedule, and works out its next instant.
    ///
    /// # Errors
    /// `InvalidArgument` for an expression or zone that cannot be read, an expression that never comes, or what is beyond a limit.
    pub async fn put(&self, schedule: &Schedule) -> Result<PutAnswer> {
        schedule.check()?;
        // Any clock will do to see whether there is a next instant at all.
        if Calendar::new(&schedule.cron, &schedule.zone)?.next_after(OffsetDateTime::now_utc()).is_none() {
            return Err(Error::invalid(format!("the cron expression {:?} never comes", schedule.cron)));
        }
        let answer = self.backend.schedule_put(schedule).await?;
        if answer != PutAnswer::Unchanged {
            self.look_ahead(&schedule.name).await;
        }
        Ok(answer)
    }

    /// Ends a pause, and works out the next instant.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn resume(&self, name: &str) -> Result<()> {
        self.backend.schedule_resume(name).await?;
        self.look_ahead(name).await;
        Ok(())
    }

    /// The schedule of this name. Errors: `NotFound`.
    pub async fn get(&self, name: &str) -> Result<ScheduleRecord> {
        let found = self.backend.schedule_list(Some(name), None, 1).await?;
        found
            .into_iter()
            .next()
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no schedule {name:?}")))
    }

    /// Fires what is due. Workers do this by themselves.
    ///
    /// # Errors
    /// What looking at the schedules answers, and transient errors of firing them.
    pub async fn tick(&self) -> Result<Ticked> {
        let due = self.backend.schedule_due(limits::MAINTENANCE_ROWS_MAX).await?;
        let mut ticked = Ticked { jobs: 0, moved: 0, already: 0, refused: Vec::new(), next_in: due.next_in };
        if due.schedules.is_empty() {
            return Ok(ticked);
        }
        for (name, planned) in plan_all(due.schedules, due.now).await? {
            let fired = match planned {
                Ok(firing) => self.backend.schedule_fire(&firing).await,
                Err(error) => Err(error),
            };
            match fired {
                Ok(Fired::Done(jobs)) => {
                    ticked.moved += 1;
                    ticked.jobs += jobs.len() as u64;
                }
                Ok(Fired::Already) => ticked.already += 1,
                Err(error) if error.is_transient() => return Err(error),
                Err(error) => ticked.refused.push((name, error)),
            }
        }
        Ok(ticked)
    }

    /// What the next tick would do for this schedule, so that its next instant is known at once. If that fails, the next tick will.
    async fn look_ahead(&self, name: &str) {
        let looked = async {
            let now = self.backend.schedule_due(1).await?.now;
            let record = self.get(name).await?;
            let Some(next_at) =
                record.next_at.filter(|next_at| *next_at <= now && record.paused_at.is_none())
            else {
                return Ok(());
            };
            let due = DueSchedule {
                name: record.schedule.name,
                cron: record.schedule.cron,
                zone: record.schedule.zone,
                missed: record.schedule.missed,
                revision: record.revision,
                done_until: record.done_until,
                next_at,
            };
            self.backend.schedule_fire(&calendar::plan(&due, now)?).await.map(drop)
        };
        if let Err(error) = looked.await {
            tracing::debug!(schedule = name, %error, "its next instant is for the next tick to work out");
        }
    }
}

/// In no particular order, so that many workers do not try for the same one after the other; and not on a thread that has
/// heartbeats to send.
async fn plan_all(due: Vec<DueSchedule>, now: OffsetDateTime) -> Result<Vec<(String, Result<Firing>)>> {
    let plans = tokio::task::spawn_blocking(move || {
        let mut plans: Vec<_> =
            due.into_iter().map(|due| (due.name.clone(), calendar::plan(&due, now))).collect();
        fastrand::shuffle(&mut plans);
        plans
    });
    plans.await.map_err(|error| Error::new(ErrorKind::Internal, "a calendar panicked").with_source(error))
}
