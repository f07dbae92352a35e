//! `doctor`: looks at an installation from outside, on a session of its own. Each look is a statement of `sql/doctor.sql` with
//! a limit on its time, and one that fails spoils no other. It refuses to use any routine but those that it asks about the
//! rows, so that it also answers where the schema is broken.

use std::time::{Duration, SystemTime};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row, Value};
use time::OffsetDateTime;
use turno_contract::doctor::{
    Check, Clock, DoctorOptions, LOCK_WAIT_MAX, audit, clock, in_order, kinds, leases, look,
    of_newer_release, paused, statement, workers,
};
use turno_contract::{Backend, Engine, Error, ErrorKind, QueueStats, Result, Unhandled};

use crate::backend::MysqlBackend;
use crate::call::exec;
use crate::error::from_call;
use crate::options::MysqlOptions;
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
const NEEDS_VIEWER: &str =
    "give this login the role viewer or operator of this installation, and make it the default role";
/// What it takes to see the sessions of others.
const NEEDS_PROCESS: &str = "GRANT PROCESS ON *.* TO this login";
/// What it takes to see the grants and the accounts.
const NEEDS_MYSQL: &str = "GRANT SELECT ON mysql.* TO this login, or run the doctor as the owner";
/// What it takes to see definitions.
const NEEDS_OWNER: &str =
    "run the doctor as the owner of the schema; on MySQL GRANT SHOW_ROUTINE ON *.* shows the routines, too";

/// Every check of this engine.
pub(crate) async fn doctor(backend: &MysqlBackend, options: &DoctorOptions) -> Vec<Check> {
    let (target, engine, options) = (backend.options().clone(), Backend::engine(backend), options.clone());
    let looked = backend.caller().on_own_thread(async move { Ok(examine(target, engine, options).await) });
    looked.await.unwrap_or_else(|error| vec![Check::unseen("connect", &error, "")])
}

/// The age of the oldest transaction of the server that this login may see.
pub(crate) async fn oldest_transaction(backend: &MysqlBackend) -> Result<Option<Duration>> {
    let call = backend.call_of(statement(STATEMENTS, "transactions"), Vec::new());
    let rows = backend.caller().call(call, true).await?;
    let oldest = rows.first().map(|row| get::<i64>(row, "age_ms")).transpose()?;
    Ok(oldest.map(rows::millis))
}

async fn examine(target: MysqlOptions, engine: Engine, options: DoctorOptions) -> Vec<Check> {
    let mut looker = Looker { target, engine, look_max: options.look_max, connection: None };
    let facts = looker.one("server").await;
    let facts = match facts {
        Ok(facts) => facts,
        Err(error) => {
            let action = "start the server, or mend the address, the login or the network; if it is full, see its connections";
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

/// A session that looks; made anew after a look that did not end.
struct Looker {
    target: MysqlOptions,
    engine: Engine,
    look_max: Duration,
    connection: Option<Conn>,
}

impl Looker {
    fn text(&self, name: &str) -> String {
        files::in_schema(statement(STATEMENTS, name), self.target.schema_name())
    }

    async fn session(&mut self) -> Result<Conn> {
        if let Some(connection) = self.connection.take() {
            return Ok(connection);
        }
        let (name, lock_s) = ("group_concat_max_len", LOCK_WAIT_MAX.as_secs().max(1));
        let limits = format!(
            "SET SESSION lock_wait_timeout = {lock_s}, innodb_lock_wait_timeout = {lock_s}, {name} = 65536"
        );
        let made = async {
            let mut connection = self.target.session().await?;
            connection.query_drop(limits).await.map_err(from_call)?;
            Ok(connection)
        };
        match tokio::time::timeout(self.look_max, made).await {
            Ok(connection) => connection,
            Err(_) => {
                Err(Error::new(ErrorKind::Unavailable, format!("no connection within {:?}", self.look_max)))
            }
        }
    }

    /// One look, within its limits.
    async fn rows(&mut self, name: &str, params: Vec<Value>) -> Result<Vec<Row>> {
        let mut connection = self.session().await?;
        let (id, text) = (connection.id(), self.text(name));
        let asked = tokio::time::timeout(self.look_max, exec(&mut connection, &text, params)).await;
        match asked {
            Ok(Ok(rows)) => {
                self.connection = Some(connection);
                Ok(rows)
            }
            Ok(Err(error)) => {
                if matches!(error, mysql_async::Error::Server(_)) {
                    self.connection = Some(connection);
                }
                Err(from_call(error))
            }
            Err(_) => {
                drop(connection);
                // The server would go on with it.
                if let Ok(mut other) = self.session().await {
                    let _ = other.query_drop(format!("KILL {id}")).await;
                    self.connection = Some(other);
                }
                Err(Error::new(ErrorKind::Busy, format!("no answer within {:?}", self.look_max)))
            }
        }
    }

    async fn one(&mut self, name: &str) -> Result<Row> {
        let mut rows = self.rows(name, Vec::new()).await?;
        rows.pop().ok_or_else(|| Error::new(ErrorKind::Internal, format!("{name}: no row")))
    }

    /// The rows of SHOW: names and values.
    async fn pairs(&mut self, name: &str) -> Result<Vec<(String, String)>> {
        let rows = self.rows(name, Vec::new()).await?;
        let pair = |row: &Row| {
            Ok((get::<String>(row, "Variable_name")?.to_ascii_lowercase(), get::<String>(row, "Value")?))
        };
        rows.iter().map(pair).collect()
    }

    /// What the server's settings and sessions say.
    async fn server(&mut self, checks: &mut Vec<Check>, facts: &Row, options: &DoctorOptions) {
        let settings = self.pairs("settings").await;
        let version: String = get(facts, "version").unwrap_or_default();
        checks
            .push(look("server", &settings, "", |settings| server::server(self.engine, &version, settings)));
        checks.push(look("isolation", &settings, "", |settings| server::isolation(settings)));
        checks.push(look("durability", &settings, "", |settings| server::durability(settings)));
        let payload_bytes_max = self.target.payload_bytes_max;
        checks.push(look("packet", &settings, "", |settings| server::packet(settings, payload_bytes_max)));
        checks.push(look("statistics", &settings, "", |settings| server::statistics(settings)));
        let status = self.pairs("status").await;
        let own = self.one("own_connections").await;
        checks.push(look("connections", &settings, "", |settings| {
            look("connections", &status, "", |status| server::budgets(settings, status, &own))
        }));
        let history = match &status {
            Ok(status) if server::number(status, "innodb_history_list_length").is_some() => {
                Ok(server::number(status, "innodb_history_list_length").unwrap_or(0))
            }
            _ => self.one("history").await.and_then(|row| get::<i64>(&row, "n")),
        };
        checks.push(look("history", &history, NEEDS_PROCESS, |n| server::history(*n)));
        let found = self.rows("transactions", Vec::new()).await;
        checks.push(look("oldest_transaction", &found, NEEDS_PROCESS, |rows| {
            server::transactions(rows, options)
        }));
        let mut measured = Vec::new();
        for _ in 0..3 {
            measured.push(self.clock().await);
        }
        let measured: Result<Vec<Clock>> = measured.into_iter().collect();
        checks.push(look("clock", &measured, "", |measured| clock(measured)));
        let routines = self.rows("routines", Vec::new()).await;
        checks.push(look("sql_mode", &settings, "", |settings| {
            look("sql_mode", &routines, "", |routines| schema::sql_mode(settings, routines))
        }));
        if routines.as_ref().is_ok_and(|routines| !routines.is_empty()) {
            checks.push(schema::definer(self, &routines).await);
        }
    }

    async fn clock(&mut self) -> Result<Clock> {
        // A session that is made anew must not count as a long way.
        self.connection = Some(self.session().await?);
        let now_us = || {
            SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_micros().min(i64::MAX as u128) as i64)
        };
        let before = now_us();
        let row = self.one("clock").await;
        let after = now_us();
        Ok(Clock::measured(before, get(&row?, "now_us")?, after))
    }

    /// What stands in the schema; whether there is one.
    async fn installation(&mut self, checks: &mut Vec<Check>, facts: &Row) -> bool {
        let files_of_release = migrate::schema_files(self.target.ahead);
        let version = self.one("schema_version").await;
        let fits = version.and_then(|row| {
            let version: i64 = get(&row, "version")?;
            files_of_release.check_version(version, get(&row, "oldest_binary")?).map(|()| version)
        });
        let is_missing = fits.as_ref().is_err_and(|error| error.kind() == ErrorKind::VersionMismatch);
        checks.push(match &fits {
            Ok(version) => Check::ok("schema", format!("version {version} fits this program")),
            Err(error) if is_missing => {
                Check::critical("schema", error.message(), "run `turno migrate` of the release that you use")
            }
            Err(error) => Check::unseen("schema", error, NEEDS_VIEWER),
        });
        let routines = self.rows("routines", Vec::new()).await;
        if is_missing && routines.as_ref().is_ok_and(Vec::is_empty) {
            return false;
        }
        let newer = of_newer_release(*fits.as_ref().unwrap_or(&0), files_of_release.version);
        if newer.is_empty() {
            checks.push(schema::drift(self, &routines).await);
            checks.push(schema::indexes(self).await);
            checks.push(schema::grants(self, &routines).await);
        }
        checks.extend(newer);
        let found = self.rows("roles", Vec::new()).await;
        let schema = self.target.schema_name();
        checks.push(look("login", &found, "", |roles| schema::login(schema, facts, roles, &routines)));
        fits.is_ok()
    }

    /// What the rows say.
    async fn queues(&mut self, checks: &mut Vec<Check>, options: &DoctorOptions) {
        let stats = self.rows("stats", Vec::new()).await;
        let stats: Result<Vec<QueueStats>> =
            stats.and_then(|rows| rows.iter().map(rows::queue_stats).collect());
        checks.push(server::locks(&stats));
        checks.push(look("workers", &stats, NEEDS_VIEWER, |stats| workers(stats, WINDOW, options)));
        checks.push(look("leases", &stats, NEEDS_VIEWER, |stats| leases(stats)));
        let settings = self.rows("queue_list", Vec::new()).await;
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
        let findings = self.rows("audit", Vec::new()).await;
        let findings: Result<Vec<_>> = findings.and_then(|rows| rows.iter().map(rows::finding).collect());
        checks.push(look("audit", &findings, NEEDS_VIEWER, |findings| audit(findings)));
    }

    async fn unhandled(&mut self, stats: &[QueueStats]) -> Result<Vec<Unhandled>> {
        let mut unhandled = Vec::new();
        for stats in stats.iter().filter(|stats| stats.scheduled.n > 0).take(QUEUES_MAX) {
            for row in self.rows("unhandled", vec![stats.queue.as_str().into()]).await? {
                unhandled.push(rows::unhandled(&stats.queue, &row)?);
            }
        }
        Ok(unhandled)
    }
}
