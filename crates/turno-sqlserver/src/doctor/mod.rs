//! `doctor`: looks at an installation from outside, on a connection of its own. Each look is a statement of `sql/doctor.sql`
//! with a limit on its time, and one that fails spoils no other. It refuses to use any routine but those that it asks about
//! the rows, so that it also answers where the schema is broken.

use std::time::{Duration, SystemTime};

use tiberius::Row;
use time::OffsetDateTime;
use turno_contract::doctor::{
    Check, Clock, DoctorOptions, LOCK_WAIT_MAX, audit, clock, in_order, kinds, leases, look,
    of_newer_release, paused, statement, workers,
};
use turno_contract::{Error, ErrorKind, QueueStats, Result, Unhandled};

use crate::backend::SqlServerBackend;
use crate::call::{Connection, Value, connect, exec, run};
use crate::error::from_call;
use crate::options::SqlServerOptions;
use crate::rows::get;
use crate::{files, migrate, rows};

mod schema;
mod server;

const STATEMENTS: &str = include_str!("../../sql/doctor.sql");
/// The window of the statistics that the statement asks for.
const WINDOW: Duration = Duration::from_secs(300);
/// Most queues that are asked for kinds which nobody handles.
const QUEUES_MAX: usize = 100;
/// What it takes to ask about the rows.
const NEEDS_VIEWER: &str = "ALTER ROLE ..._viewer ADD MEMBER this login's user";
/// What it takes to see the sessions of others.
const NEEDS_STATE: &str = "GRANT VIEW SERVER STATE TO this login (VIEW DATABASE STATE on Azure SQL)";
/// What it takes to see definitions and grants.
const NEEDS_DEFINITION: &str = "GRANT VIEW DEFINITION TO this login's user, or run the doctor as the owner";

/// Every check of this engine.
pub(crate) async fn doctor(backend: &SqlServerBackend, options: &DoctorOptions) -> Vec<Check> {
    let (target, options) = (backend.options().clone(), options.clone());
    let looked = backend.caller().on_own_thread(async move { Ok(examine(target, options).await) });
    looked.await.unwrap_or_else(|error| vec![Check::unseen("connect", &error, "")])
}

/// The age of the oldest transaction of the server that this login may see.
pub(crate) async fn oldest_transaction(backend: &SqlServerBackend) -> Result<Option<Duration>> {
    let call = backend.call_of(statement(STATEMENTS, "transactions"), Vec::new());
    let rows = backend.caller().call(call, true).await?;
    let oldest = rows.first().map(|row| get::<i64>(row, "age_ms")).transpose()?;
    Ok(oldest.map(rows::millis))
}

async fn examine(target: SqlServerOptions, options: DoctorOptions) -> Vec<Check> {
    let mut looker = Looker { target, look_max: options.look_max, connection: None };
    let facts = match looker.one("server").await {
        Ok(facts) => facts,
        Err(error) => {
            let action = "start the server, or mend the address, the login or the network";
            return vec![Check::critical("connect", error.message(), action)];
        }
    };
    let mut checks = Vec::new();
    looker.server(&mut checks, &facts, &options).await;
    if looker.installation(&mut checks, &facts).await {
        looker.queues(&mut checks, &options).await;
    }
    in_order(checks)
}

/// A connection that looks; made anew after a look that did not end well.
struct Looker {
    target: SqlServerOptions,
    look_max: Duration,
    connection: Option<Connection>,
}

impl Looker {
    fn text(&self, name: &str) -> String {
        // A call of a routine stands for itself.
        let text = if name.starts_with("EXEC ") { name } else { statement(STATEMENTS, name) };
        files::in_schema(text, &self.target.schema)
    }

    async fn connection(&mut self) -> Result<Connection> {
        if let Some(connection) = self.connection.take() {
            return Ok(connection);
        }
        let mut connection = connect(&self.target).await?;
        let limit = format!(
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCK_TIMEOUT {}",
            LOCK_WAIT_MAX.as_millis()
        );
        run(&mut connection, &limit).await.map_err(from_call)?;
        Ok(connection)
    }

    /// One look, within its limits. Closing the connection ends a statement that takes too long.
    async fn rows(&mut self, name: &str, params: &[Value]) -> Result<Vec<Row>> {
        let text = self.text(name);
        let mut connection = self.connection().await?;
        match tokio::time::timeout(self.look_max, exec(&mut connection, &text, params)).await {
            Ok(Ok(rows)) => {
                self.connection = Some(connection);
                Ok(rows)
            }
            Ok(Err(error)) => Err(from_call(error)),
            Err(_) => Err(Error::new(ErrorKind::Busy, format!("no answer within {:?}", self.look_max))),
        }
    }

    async fn one(&mut self, name: &str) -> Result<Row> {
        let mut rows = self.rows(name, &[]).await?;
        rows.pop().ok_or_else(|| Error::new(ErrorKind::Internal, format!("{name}: no row")))
    }

    /// What the server's settings and sessions say.
    async fn server(&mut self, checks: &mut Vec<Check>, facts: &Row, options: &DoctorOptions) {
        checks.extend(
            server::of_facts(facts).unwrap_or_else(|error| vec![Check::unseen("server", &error, "")]),
        );
        if get::<bool>(facts, "sees_sessions").unwrap_or(false) {
            let found = self.one("connections").await;
            checks.push(look("connections", &found, NEEDS_STATE, server::budgets));
        } else {
            let found = "the sessions of others are hidden from this login";
            checks.push(Check::unknown("connections", found, NEEDS_STATE));
        }
        let found = self.rows("transactions", &[]).await;
        checks.push(look("oldest_transaction", &found, NEEDS_STATE, |rows| {
            server::transactions(rows, options)
        }));
        let mut measured = Vec::new();
        for _ in 0..3 {
            measured.push(self.clock().await);
        }
        let measured: Result<Vec<Clock>> = measured.into_iter().collect();
        checks.push(look("clock", &measured, "", |measured| clock(measured)));
    }

    async fn clock(&mut self) -> Result<Clock> {
        // A connection that is made anew must not count as a long way.
        self.connection = Some(self.connection().await?);
        let now_us = || {
            SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_micros().min(i64::MAX as u128) as i64)
        };
        let before = now_us();
        let row = self.one("clock").await;
        let after = now_us();
        Ok(Clock::measured(before, get(&row?, "now_us")?, after))
    }

    /// What stands in the schema; whether there is one that fits.
    async fn installation(&mut self, checks: &mut Vec<Check>, facts: &Row) -> bool {
        if !get::<bool>(facts, "is_installed").unwrap_or(true) {
            let found = format!("there is no schema {} in this database", self.target.schema);
            let action = "run `turno migrate`, or give another database or ?turno_schema=NAME";
            checks.push(Check::critical("schema", found, action));
            return false;
        }
        let files_of_release = migrate::schema_files(self.target.ahead);
        let version = self.one("EXEC turno.schema_version").await;
        let fits = version.and_then(|row| {
            let version: i64 = get(&row, "version")?;
            files_of_release.check_version(version, get(&row, "oldest_binary")?).map(|()| version)
        });
        checks.push(match &fits {
            Ok(version) => Check::ok("schema", format!("version {version} fits this program")),
            Err(error) if error.kind() == ErrorKind::VersionMismatch => {
                Check::critical("schema", error.message(), "run `turno migrate` of the release that you use")
            }
            Err(error) => Check::unseen("schema", error, NEEDS_VIEWER),
        });
        let newer = of_newer_release(*fits.as_ref().unwrap_or(&0), files_of_release.version);
        if newer.is_empty() {
            checks.push(schema::drift(self).await);
            let found = self.rows("indexes", &[]).await;
            let schema = &self.target.schema;
            checks.push(look("indexes", &found, NEEDS_DEFINITION, |rows| schema::indexes(schema, rows)));
            let found = self.rows("rights", &[]).await;
            let schema = &self.target.schema;
            checks.push(look("grants", &found, NEEDS_DEFINITION, |rows| schema::grants(schema, rows)));
        }
        checks.extend(newer);
        let found = self.rows("roles", &[]).await;
        checks.push(look("login", &found, "", |rows| schema::login(&self.target.schema, facts, rows)));
        fits.is_ok()
    }

    /// What the rows say.
    async fn queues(&mut self, checks: &mut Vec<Check>, options: &DoctorOptions) {
        let stats = self.rows("EXEC turno.stats 300000", &[]).await;
        let stats: Result<Vec<QueueStats>> =
            stats.and_then(|rows| rows.iter().map(rows::queue_stats).collect());
        checks.push(server::locks(&stats));
        checks.push(look("workers", &stats, NEEDS_VIEWER, |stats| workers(stats, WINDOW, options)));
        checks.push(look("leases", &stats, NEEDS_VIEWER, |stats| leases(stats)));
        let settings = self.rows("EXEC turno.queue_list", &[]).await;
        let settings: Result<Vec<_>> =
            settings.and_then(|rows| rows.iter().map(rows::queue_settings).collect());
        let ahead_us = self.clock().await.map_or(0, |clock| clock.ahead_us);
        let now = OffsetDateTime::now_utc() + time::Duration::microseconds(ahead_us);
        checks.push(look("paused", &settings, NEEDS_VIEWER, |settings| {
            look("paused", &stats, NEEDS_VIEWER, |stats| paused(stats, settings, now, options))
        }));
        let unhandled = match &stats {
            Ok(stats) => self.unhandled(stats).await,
            Err(error) => Err(Error::new(error.kind(), error.message())),
        };
        checks.push(look("kinds", &unhandled, NEEDS_VIEWER, |unhandled| kinds(unhandled)));
        let findings = self.rows("EXEC turno.audit", &[]).await;
        let findings: Result<Vec<_>> = findings.and_then(|rows| rows.iter().map(rows::finding).collect());
        checks.push(look("audit", &findings, NEEDS_VIEWER, |findings| audit(findings)));
    }

    async fn unhandled(&mut self, stats: &[QueueStats]) -> Result<Vec<Unhandled>> {
        let mut unhandled = Vec::new();
        for stats in stats.iter().filter(|stats| stats.scheduled.n > 0).take(QUEUES_MAX) {
            for row in self.rows("EXEC turno.unhandled @P1", &[stats.queue.as_str().into()]).await? {
                unhandled.push(rows::unhandled(&stats.queue, &row)?);
            }
        }
        Ok(unhandled)
    }
}
