//! The operations on schedules as calls of their routines, and their rows. What makes an instant due or a fire valid is
//! the routines' to say; this module refuses to know any calendar.

use mysql_async::Row;
use turno_contract::{
    DueSchedule, DueSchedules, Error, ErrorKind, Fired, Firing, JobId, Missed, PutAnswer, Result, Schedule,
    ScheduleRecord, check_schedule_name, json_list, whole_ms,
};

use crate::backend::MysqlBackend;
use crate::rows::{self, get, instant, micros, optional_instant};

impl MysqlBackend {
    pub(crate) async fn put_schedule(&self, schedule: &Schedule) -> Result<PutAnswer> {
        schedule.check()?;
        let (missed, limit) = schedule.missed.parts();
        let params = vec![
            schedule.name.as_str().into(),
            schedule.cron.as_str().into(),
            schedule.zone.as_str().into(),
            schedule.queue.as_str().into(),
            schedule.kind.as_str().into(),
            schedule.payload.as_str().into(),
            schedule.priority.into(),
            schedule.max_attempts.into(),
            schedule.max_run.map(whole_ms).into(),
            schedule.unique_key.as_deref().into(),
            missed.into(),
            limit.into(),
        ];
        let sql = "CALL turno.schedule_put(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let row = self.call_one(sql, params).await?;
        self.ring();
        get::<String>(&row, "answer")?.parse().map_err(rows::unexpected)
    }

    pub(crate) async fn list_schedules(
        &self,
        name: Option<&str>,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<ScheduleRecord>> {
        let params = vec![name.into(), after.into(), limit.into()];
        self.call("CALL turno.schedule_list(?, ?, ?)", params).await?.iter().map(record).collect()
    }

    /// Pauses, resumes or removes.
    pub(crate) async fn change_schedule(&self, sql: &str, name: &str) -> Result<()> {
        check_schedule_name(name)?;
        self.call(sql, vec![name.into()]).await?;
        self.ring();
        Ok(())
    }

    pub(crate) async fn due_schedules(&self, limit: u32) -> Result<DueSchedules> {
        let rows = self.call_now("CALL turno.schedule_due(?)", vec![limit.into()]).await?;
        let first =
            rows.first().ok_or_else(|| Error::new(ErrorKind::Internal, "the routine answered no row"))?;
        let mut schedules = Vec::with_capacity(rows.len());
        for row in &rows {
            if let Some(name) = get::<Option<String>>(row, "name")? {
                schedules.push(due_schedule(row, name)?);
            }
        }
        let next_in = get::<Option<i64>>(first, "next_in_ms")?.map(rows::millis);
        Ok(DueSchedules { now: instant(first, "now")?, schedules, next_in })
    }

    pub(crate) async fn fire_schedule(&self, firing: &Firing) -> Result<Fired> {
        check_schedule_name(&firing.name)?;
        let instants: Vec<i64> = firing.instants.iter().map(|at| micros(*at)).collect();
        let params = vec![
            firing.name.as_str().into(),
            firing.revision.into(),
            micros(firing.until).into(),
            json_list(&instants)?.into(),
            firing.next_at.map(micros).into(),
        ];
        let rows = self.call("CALL turno.schedule_fire(?, ?, ?, ?, ?)", params).await?;
        let mut jobs = Vec::with_capacity(rows.len());
        for row in &rows {
            if get::<String>(row, "answer")? == "already" {
                return Ok(Fired::Already);
            }
            jobs.extend(get::<Option<i64>>(row, "job_id")?.map(JobId));
        }
        if !jobs.is_empty() {
            self.ring();
        }
        Ok(Fired::Done(jobs))
    }
}

fn missed(row: &Row) -> Result<Missed> {
    Missed::from_parts(&get::<String>(row, "missed")?, get(row, "missed_limit")?).map_err(rows::unexpected)
}

fn due_schedule(row: &Row, name: String) -> Result<DueSchedule> {
    Ok(DueSchedule {
        name,
        cron: get(row, "cron")?,
        zone: get(row, "zone")?,
        missed: missed(row)?,
        revision: get(row, "revision")?,
        done_until: instant(row, "done_until")?,
        next_at: instant(row, "next_at")?,
    })
}

fn record(row: &Row) -> Result<ScheduleRecord> {
    Ok(ScheduleRecord {
        schedule: Schedule {
            name: get(row, "name")?,
            cron: get(row, "cron")?,
            zone: get(row, "zone")?,
            queue: get(row, "queue")?,
            kind: get(row, "kind")?,
            payload: get(row, "payload")?,
            priority: get(row, "priority")?,
            max_attempts: get(row, "max_attempts")?,
            max_run: get::<Option<i64>>(row, "max_run_ms")?.map(rows::millis),
            unique_key: get(row, "unique_key")?,
            missed: missed(row)?,
        },
        revision: get(row, "revision")?,
        done_until: instant(row, "done_until")?,
        next_at: optional_instant(row, "next_at")?,
        paused_at: optional_instant(row, "paused_at")?,
        last_at: optional_instant(row, "last_at")?,
        last_job: get::<Option<i64>>(row, "last_job")?.map(JobId),
        created_at: instant(row, "created_at")?,
        updated_at: instant(row, "updated_at")?,
    })
}
