//! `doctor`: looks at an installation from outside, on sessions of its own. Each look is a statement of `sql/doctor.sql` in a
//! read-only transaction with limits, and one that fails spoils no other. It refuses to use any routine but those that it asks
//! about the rows, so that it also answers where the schema is broken.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use time::OffsetDateTime;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};
use turno_contract::doctor::{
    Check, Clock, DoctorOptions, LOCK_WAIT_MAX, audit, clock, in_order, kinds, leases, look,
    of_newer_release, paused, statement, workers,
};
use turno_contract::{Error, ErrorKind, QueueStats, Result, Unhandled};

use crate::call::Caller;
use crate::error::from_call;
use crate::options::PostgresOptions;
use crate::{files, migrate, rows};

mod schema;
mod server;
mod tables;

const STATEMENTS: &str = include_str!("../../sql/doctor.sql");
/// The window of the statistics that the statement asks for.
const WINDOW: Duration = Duration::from_secs(300);
/// Most queues that are asked for kinds which nobody handles.
const QUEUES_MAX: usize = 100;
/// How long the server has to say that a statement took too long, before the client says so.
const GRACE: Duration = Duration::from_secs(2);
/// What it takes to ask about the rows.
const NEEDS_VIEWER: &str = "make this login a member of the viewer or operator role of this installation";
/// What it takes to see the sessions of others.
const NEEDS_STATS: &str = "GRANT pg_read_all_stats TO this login (pg_monitor has it, too)";

/// Every check of this engine.
pub(crate) async fn doctor(target: &PostgresOptions, options: &DoctorOptions) -> Vec<Check> {
    let looker = match Looker::open(target, options.look_max).await {
        Ok(looker) => looker,
        Err(error) => {
            let action = "start the server, or mend the address, the login or the network; if it is full, see its connections";
            return vec![Check::critical("connect", error.message(), action)];
        }
    };
    let mut checks = Vec::new();
    let facts = looker.one("server").await;
    checks.push(look("server", &facts, "", server::server));
    checks.push(look("isolation", &facts, "", server::isolation));
    let sees_sessions = facts.as_ref().is_ok_and(|facts| facts.get("sees_sessions"));
    looker.server(&mut checks, options, sees_sessions).await;
    checks.push(server::pooler(target, &looker).await);
    match facts {
        Ok(facts) if !facts.get::<_, bool>("is_installed") => {
            let found = format!("there is no schema {} with tables of turno in this database", looker.schema);
            let action = "run `turno migrate`, or give another database or ?turno_schema=NAME";
            checks.push(Check::critical("schema", found, action));
        }
        Ok(facts) => {
            looker.installation(&mut checks, target, &facts).await;
            looker.queues(&mut checks, options).await;
        }
        Err(_) => {}
    }
    in_order(checks)
}

/// The age of the oldest transaction that holds back vacuum in this database.
pub(crate) async fn oldest_transaction(caller: &Caller) -> Result<Option<Duration>> {
    let rows = caller.call(statement(STATEMENTS, "oldest_transaction"), &[], false).await?;
    let row = rows.first().ok_or_else(|| Error::new(ErrorKind::Internal, "no row"))?;
    match (row.get::<_, Option<i64>>("age_ms"), row.get("sees_sessions")) {
        (None, false) => Err(Error::new(ErrorKind::PermissionDenied, NEEDS_STATS)),
        (age_ms, _) => Ok(age_ms.map(rows::millis)),
    }
}

/// A session that looks.
struct Looker {
    client: Client,
    schema: String,
    look_max: Duration,
}

impl Looker {
    async fn open(target: &PostgresOptions, look_max: Duration) -> Result<Self> {
        match tokio::time::timeout(look_max, target.session(|| {})).await {
            Ok(client) => Ok(Looker { client: client?, schema: target.schema.clone(), look_max }),
            Err(_) => {
                let message = format!("no connection within {look_max:?}");
                Err(Error::new(ErrorKind::Unavailable, message))
            }
        }
    }

    fn text(&self, name: &str) -> Cow<'static, str> {
        let text = statement(STATEMENTS, name);
        match self.schema.as_str() {
            "turno" => Cow::Borrowed(text),
            schema => Cow::Owned(files::in_schema(text, schema)),
        }
    }

    /// One look, within its limits.
    async fn rows(&self, name: &str, params: &[(&(dyn ToSql + Sync), Type)]) -> Result<Vec<Row>> {
        // A pooler may give each transaction another session, so the limits are this transaction's.
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = {}",
            self.look_max.as_millis().max(1),
            LOCK_WAIT_MAX.as_millis()
        );
        let text = self.text(name);
        let asked = async {
            self.client.batch_execute(&begin).await?;
            let rows = self.client.query_typed(&text, params).await;
            self.client.batch_execute("ROLLBACK").await?;
            rows
        };
        match tokio::time::timeout(self.look_max + GRACE, asked).await {
            Ok(rows) => rows.map_err(from_call),
            Err(_) => Err(Error::new(ErrorKind::Busy, format!("no answer within {:?}", self.look_max))),
        }
    }

    async fn one(&self, name: &str) -> Result<Row> {
        let mut rows = self.rows(name, &[]).await?;
        rows.pop().ok_or_else(|| Error::new(ErrorKind::Internal, format!("{name}: no row")))
    }

    /// What the server's settings, sessions and replication say.
    async fn server(&self, checks: &mut Vec<Check>, options: &DoctorOptions, sees_sessions: bool) {
        let hidden = (!sees_sessions).then_some(NEEDS_STATS);
        let settings = self.rows("settings", &[]).await;
        let tables = self.rows("tables", &[]).await;
        checks.push(look("durability", &settings, "", |rows| server::durability(rows, &tables)));
        checks.push(look("vacuum", &settings, "", |rows| tables::vacuum(rows, &tables)));
        checks.push(look("statistics", &tables, "", |rows| tables::statistics(rows)));
        checks.push(look("dead_rows", &tables, "", |rows| tables::dead_rows(rows)));
        let found = self.rows("transactions", &[]).await;
        checks.push(look("oldest_transaction", &found, NEEDS_STATS, |rows| {
            server::transactions(rows, options, hidden)
        }));
        let found = self.rows("prepared", &[]).await;
        checks.push(look("prepared_transactions", &found, "", |rows| server::prepared(rows, options)));
        let found = self.rows("slots", &[]).await;
        checks.push(look("replication_slots", &found, NEEDS_STATS, |rows| server::slots(rows)));
        let found = self.rows("standbys", &[]).await;
        checks.push(look("standby_feedback", &found, NEEDS_STATS, |rows| server::standbys(rows, hidden)));
        let found = self.one("connections").await;
        checks.push(look("connections", &found, "", server::budgets));
        let mut measured = Vec::new();
        for _ in 0..3 {
            measured.push(self.clock().await);
        }
        let measured: Result<Vec<Clock>> = measured.into_iter().collect();
        checks.push(look("clock", &measured, "", |measured| clock(measured)));
    }

    async fn clock(&self) -> Result<Clock> {
        let text = self.text("clock");
        let now_us = || {
            SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_micros().min(i64::MAX as u128) as i64)
        };
        let before = now_us();
        let asked = tokio::time::timeout(self.look_max, self.client.query_typed(&text, &[])).await;
        let after = now_us();
        let rows = asked.map_err(|_| Error::new(ErrorKind::Busy, "no answer"))?.map_err(from_call)?;
        let database = rows.first().map_or(0, |row| row.get("now_us"));
        Ok(Clock::measured(before, database, after))
    }

    /// What stands in the schema.
    async fn installation(&self, checks: &mut Vec<Check>, target: &PostgresOptions, facts: &Row) {
        let files_of_release = migrate::schema_files(target.ahead);
        let version = self.one("schema_version").await;
        let fits = version.and_then(|row| {
            let (version, oldest): (i64, i64) = (row.get("version"), row.get("oldest_binary"));
            files_of_release.check_version(version, oldest).map(|()| version)
        });
        checks.push(match &fits {
            Ok(version) => Check::ok("schema", format!("version {version} fits this program")),
            Err(error) if error.kind() == ErrorKind::VersionMismatch => {
                Check::critical("schema", error.message(), "run `turno migrate` of the release that you use")
            }
            Err(error) => {
                Check::unseen("schema", error, "make this login a member of any role of this installation")
            }
        });
        let newer = of_newer_release(fits.unwrap_or(0), files_of_release.version);
        if newer.is_empty() {
            checks.push(schema::drift(self).await);
            let found = self.rows("indexes", &[]).await;
            checks.push(look("indexes", &found, "", |rows| schema::indexes(&self.schema, rows)));
            let found = self.rows("rights", &[]).await;
            checks.push(look("grants", &found, "", |rows| schema::grants(&self.schema, rows)));
        }
        checks.extend(newer);
        let found = self.rows("roles", &[]).await;
        checks.push(look("login", &found, "", |rows| schema::login(facts, rows)));
        let found = self.rows("locks", &[]).await;
        checks.push(look("locks", &found, "", |rows| tables::locks(rows)));
    }

    /// What the rows say.
    async fn queues(&self, checks: &mut Vec<Check>, options: &DoctorOptions) {
        let stats = self.rows("stats", &[]).await;
        let stats: Result<Vec<QueueStats>> = stats.map(|rows| rows.iter().map(rows::queue_stats).collect());
        checks.push(look("workers", &stats, NEEDS_VIEWER, |stats| workers(stats, WINDOW, options)));
        checks.push(look("leases", &stats, NEEDS_VIEWER, |stats| leases(stats)));
        let settings = self.rows("queue_list", &[]).await;
        let settings: Result<Vec<_>> = settings.map(|rows| rows.iter().map(rows::queue_settings).collect());
        let now = self
            .clock()
            .await
            .map(|clock| OffsetDateTime::now_utc() + time::Duration::microseconds(clock.ahead_us));
        let now = now.unwrap_or_else(|_| OffsetDateTime::now_utc());
        checks.push(look("paused", &settings, NEEDS_VIEWER, |settings| {
            look("paused", &stats, NEEDS_VIEWER, |stats| paused(stats, settings, now, options))
        }));
        let unhandled = match &stats {
            Ok(stats) => self.unhandled(stats).await,
            Err(error) => Err(Error::new(error.kind(), error.message())),
        };
        checks.push(look("kinds", &unhandled, NEEDS_VIEWER, |unhandled| kinds(unhandled)));
        let findings = self.rows("audit", &[]).await;
        let findings: Result<Vec<_>> = findings.map(|rows| rows.iter().map(rows::finding).collect());
        checks.push(look("audit", &findings, NEEDS_VIEWER, |findings| audit(findings)));
    }

    async fn unhandled(&self, stats: &[QueueStats]) -> Result<Vec<Unhandled>> {
        let mut unhandled = Vec::new();
        for stats in stats.iter().filter(|stats| stats.scheduled.n > 0).take(QUEUES_MAX) {
            let rows = self.rows("unhandled", &[(&stats.queue, Type::TEXT)]).await?;
            unhandled.extend(rows.iter().map(|row| rows::unhandled(&stats.queue, row)));
        }
        Ok(unhandled)
    }

    /// The number of the server's process that answers now.
    async fn process(&self) -> Result<i64> {
        Ok(self.one("process").await?.get("id"))
    }
}
