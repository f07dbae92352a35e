//! The operations on schedules as calls of their routines, and their rows. What makes an instant due or a fire valid is
//! the routines' to say; this module refuses to know any calendar.

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use turno_contract::{
    DueSchedule, DueSchedules, Error, ErrorKind, Fired, Firing, JobId, Missed, PutAnswer, Result, Schedule,
    ScheduleRecord, check_schedule_name, whole_ms,
};

use crate::backend::PostgresBackend;
use crate::call::Param;
use crate::rows;

impl PostgresBackend {
    pub(crate) async fn put_schedule(&self, schedule: &Schedule) -> Result<PutAnswer> {
        schedule.check()?;
        let (missed, limit) = schedule.missed.parts();
        let params: [Param<'_>; 12] = [
            (&schedule.name, Type::TEXT),
            (&schedule.cron, Type::TEXT),
            (&schedule.zone, Type::TEXT),
            (&schedule.queue, Type::TEXT),
            (&schedule.kind, Type::TEXT),
            (&schedule.payload, Type::TEXT),
            (&schedule.priority, Type::INT4),
            (&schedule.max_attempts.map(|n| n as i32), Type::INT4),
            (&schedule.max_run.map(whole_ms), Type::INT8),
            (&schedule.unique_key, Type::TEXT),
            (&missed, Type::TEXT),
            (&limit.map(|n| n as i32), Type::INT4),
        ];
        let sql = "SELECT turno.schedule_put($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) AS answer";
        self.call_one(sql, &params).await?.get::<_, &str>("answer").parse().map_err(rows::unexpected)
    }

    pub(crate) async fn list_schedules(
        &self,
        name: Option<&str>,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<ScheduleRecord>> {
        let params: [Param<'_>; 3] =
            [(&name, Type::TEXT), (&after, Type::TEXT), (&(limit as i32), Type::INT4)];
        let rows = self.call("SELECT * FROM turno.schedule_list($1, $2, $3)", &params).await?;
        rows.iter().map(record).collect()
    }

    /// Pauses, resumes or removes.
    pub(crate) async fn change_schedule(&self, sql: &str, name: &str) -> Result<()> {
        check_schedule_name(name)?;
        self.call(sql, &[(&name, Type::TEXT)]).await.map(drop)
    }

    pub(crate) async fn due_schedules(&self, limit: u32) -> Result<DueSchedules> {
        let params: [Param<'_>; 1] = [(&(limit as i32), Type::INT4)];
        let rows = self.call_now("SELECT * FROM turno.schedule_due($1)", &params).await?;
        let first =
            rows.first().ok_or_else(|| Error::new(ErrorKind::Internal, "the routine answered no row"))?;
        let due = rows.iter().filter(|row| row.get::<_, Option<&str>>("name").is_some());
        Ok(DueSchedules {
            now: first.get("now"),
            schedules: due.map(due_schedule).collect::<Result<_>>()?,
            next_in: first.get::<_, Option<i64>>("next_in_ms").map(rows::millis),
        })
    }

    pub(crate) async fn fire_schedule(&self, firing: &Firing) -> Result<Fired> {
        check_schedule_name(&firing.name)?;
        let params: [Param<'_>; 5] = [
            (&firing.name, Type::TEXT),
            (&firing.revision, Type::INT8),
            (&firing.until, Type::TIMESTAMPTZ),
            (&firing.instants, Type::TIMESTAMPTZ_ARRAY),
            (&firing.next_at, Type::TIMESTAMPTZ),
        ];
        let rows = self.call("SELECT * FROM turno.schedule_fire($1, $2, $3, $4, $5)", &params).await?;
        if rows.first().is_none_or(|row| row.get::<_, &str>("answer") == "already") {
            return Ok(Fired::Already);
        }
        Ok(Fired::Done(
            rows.iter().filter_map(|row| row.get::<_, Option<i64>>("job_id")).map(JobId).collect(),
        ))
    }
}

fn missed(row: &Row) -> Result<Missed> {
    let limit = row.get::<_, Option<i32>>("missed_limit").map(i64::from);
    Missed::from_parts(row.get("missed"), limit).map_err(rows::unexpected)
}

fn due_schedule(row: &Row) -> Result<DueSchedule> {
    Ok(DueSchedule {
        name: row.get("name"),
        cron: row.get("cron"),
        zone: row.get("zone"),
        missed: missed(row)?,
        revision: row.get("revision"),
        done_until: row.get("done_until"),
        next_at: row.get("next_at"),
    })
}

fn record(row: &Row) -> Result<ScheduleRecord> {
    Ok(ScheduleRecord {
        schedule: Schedule {
            name: row.get("name"),
            cron: row.get("cron"),
            zone: row.get("zone"),
            queue: row.get("queue"),
            kind: row.get("kind"),
            payload: row.get("payload"),
            priority: row.get("priority"),
            max_attempts: row.get::<_, Option<i32>>("max_attempts").map(|n| n.max(0) as u32),
            max_run: row.get::<_, Option<i64>>("max_run_ms").map(rows::millis),
            unique_key: row.get("unique_key"),
            missed: missed(row)?,
        },
        revision: row.get("revision"),
        done_until: row.get("done_until"),
        next_at: row.get("next_at"),
        paused_at: row.get("paused_at"),
        last_at: row.get("last_at"),
        last_job: row.get::<_, Option<i64>>("last_job").map(JobId),
        created_at: row.get("created_at"),
        updated_at: row.get("updated_at"),
    })
}
