//! One operation at work: a connection, the instant, and the running of statements by name. Refuses to begin or end a
//! transaction; that is for whoever made it.

use std::cell::Cell;

use rusqlite::{Connection, Row, ToSql};
use turno_contract::{Error, ErrorKind, Result};

use crate::error::{NO_SCHEMA, of_engine};
use crate::migrate;
use crate::statements;

/// The values of a statement's parameters, by name.
pub(crate) type Params<'p> = &'p [(&'p str, &'p dyn ToSql)];

/// What an operation works with, inside a transaction.
pub(crate) struct Work<'c> {
    connection: &'c Connection,
    /// The instant of this operation, in microseconds since 1970 by the database's clock.
    pub(crate) now: i64,
    rings: Cell<bool>,
}

impl<'c> Work<'c> {
    /// Errors with `VersionMismatch` if the schema is not one that this binary may use.
    pub(crate) fn new(connection: &'c Connection) -> Result<Self> {
        let work = Work::without_schema(connection)?;
        match work.row("schema_version.read", &[], |row| Ok((row.get(0)?, row.get(1)?)))? {
            Some((version, oldest_binary)) => migrate::check_version(version, oldest_binary)?,
            None => return Err(Error::new(ErrorKind::VersionMismatch, NO_SCHEMA)),
        }
        Ok(work)
    }

    /// For `migrate`, which makes the schema.
    pub(crate) fn without_schema(connection: &'c Connection) -> Result<Self> {
        let work = Work { connection, now: 0, rings: Cell::new(false) };
        let now = work.one("now.read", &[], |row| row.get(0))?;
        Ok(Work { now, ..work })
    }

    /// The schema's version.
    pub(crate) fn version(&self) -> Result<i64> {
        self.one("schema_version.read", &[], |row| row.get(0))
    }

    /// The connection itself.
    pub(crate) fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// Notes that jobs became ready: once this is committed, sleepers are to be woken.
    pub(crate) fn ring(&self) {
        self.rings.set(true);
    }

    /// Whether [`ring`](Work::ring) was called.
    pub(crate) fn rings(&self) -> bool {
        self.rings.get()
    }

    /// Runs a statement; answers how many rows it changed.
    pub(crate) fn execute(&self, name: &str, params: Params) -> Result<usize> {
        let mut statement = self.prepare(name, params)?;
        statement.execute(params).map_err(of_engine)
    }

    /// Runs a statement; answers its rows.
    pub(crate) fn rows<T>(
        &self,
        name: &str,
        params: Params,
        read: impl FnMut(&Row) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let mut statement = self.prepare(name, params)?;
        let rows = statement.query_map(params, read).map_err(of_engine)?;
        rows.collect::<rusqlite::Result<_>>().map_err(of_engine)
    }

    /// Runs a statement; answers its first row.
    pub(crate) fn row<T>(
        &self,
        name: &str,
        params: Params,
        read: impl FnOnce(&Row) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        let mut statement = self.prepare(name, params)?;
        let mut rows = statement.query(params).map_err(of_engine)?;
        rows.next().map_err(of_engine)?.map(read).transpose().map_err(of_engine)
    }

    /// Runs a statement that always has a row.
    pub(crate) fn one<T>(
        &self,
        name: &str,
        params: Params,
        read: impl FnOnce(&Row) -> rusqlite::Result<T>,
    ) -> Result<T> {
        self.row(name, params, read)?
            .ok_or_else(|| Error::new(ErrorKind::Internal, format!("the statement {name} has no row")))
    }

    fn prepare(&self, name: &str, params: Params) -> Result<rusqlite::CachedStatement<'c>> {
        let statement = self.connection.prepare_cached(statements::text(name)).map_err(of_engine)?;
        // A parameter without a value would silently be NULL.
        debug_assert_eq!(statement.parameter_count(), params.len(), "parameters of {name}");
        Ok(statement)
    }
}
