//! Operations inside the caller's own transaction. What we would retry in a transaction of our own goes up as
//! `TransactionLost` here: the caller's work is rolled back with it (rule X3).

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Value};
use turno_contract::{
    Completion, Enqueued, Error, ErrorKind, Failure, NewJob, Release, Result, Retry, Settled, check_jobs,
    check_json, check_name, cut_error, whole_ms,
};

use crate::batch::enqueue_call;
use crate::call::exec;
use crate::error::in_transaction;
use crate::{MysqlBackend, rows};

/// The text of a completion in the caller's transaction.
pub(crate) const COMPLETE_SQL: &str = "CALL turno.complete(?, ?, ?, ?, ?)";

impl MysqlBackend {
    /// Enqueues inside the caller's transaction: the job exists if and when that commits (rule E1).
    ///
    /// Errors: `InvalidArgument`, `PermissionDenied`, after which the transaction is as it was before; `TransactionLost`,
    /// after which it must be rolled back.
    pub async fn enqueue_in(&self, transaction: &mut impl Queryable, job: &NewJob) -> Result<Enqueued> {
        check_jobs(std::slice::from_ref(job), self.payload_bytes_max())?;
        let call = enqueue_call(job);
        let rows = exec(transaction, &self.text(&call.sql), call.params).await.map_err(in_transaction)?;
        self.ring_after_commit();
        rows.first().map(rows::enqueued).ok_or_else(no_row)?
    }

    /// Completes inside the caller's transaction, so that the job's effects in this database and its completion commit
    /// together (rule S5).
    ///
    /// Errors: `LeaseLost`, `Conflict`, `NotFound` if it is refused, `TransactionLost`. After any of these the transaction
    /// must be rolled back, which MySQL and MariaDB leave to the caller ([`SettlingTransaction`] does not): report a
    /// refusal by [`refused_record`](turno_contract::Backend::refused_record) afterwards.
    pub async fn complete_in(
        &self,
        transaction: &mut impl Queryable,
        worker: &str,
        completion: &Completion,
    ) -> Result<Settled> {
        check_name("worker", worker)?;
        if let Some(result) = &completion.result {
            check_json("result", result, self.payload_bytes_max())?;
        }
        let proof = completion.proof;
        let params = vec![
            proof.job.0.into(),
            proof.attempt.into(),
            proof.token.as_uuid().to_string().into(),
            completion.result.as_deref().into(),
            worker.into(),
        ];
        self.settle_in(transaction, COMPLETE_SQL, params).await
    }

    /// Fails inside the caller's transaction; see [`complete_in`](MysqlBackend::complete_in).
    pub async fn fail_in(
        &self,
        transaction: &mut impl Queryable,
        worker: &str,
        failure: &Failure,
    ) -> Result<Settled> {
        check_name("worker", worker)?;
        let proof = failure.proof;
        let retry = match failure.retry {
            Retry::Policy => None,
            Retry::In(delay) => Some(whole_ms(delay)),
            Retry::Never => Some(-1),
        };
        let params = vec![
            proof.job.0.into(),
            proof.attempt.into(),
            proof.token.as_uuid().to_string().into(),
            cut_error(&failure.error).0.into(),
            retry.into(),
            worker.into(),
        ];
        self.settle_in(transaction, "CALL turno.fail(?, ?, ?, ?, ?, ?)", params).await
    }

    /// Releases inside the caller's transaction; see [`complete_in`](MysqlBackend::complete_in).
    pub async fn release_in(
        &self,
        transaction: &mut impl Queryable,
        worker: &str,
        release: &Release,
    ) -> Result<Settled> {
        check_name("worker", worker)?;
        let proof = release.proof;
        let params = vec![
            proof.job.0.into(),
            proof.attempt.into(),
            proof.token.as_uuid().to_string().into(),
            release.delay.map(whole_ms).into(),
            worker.into(),
        ];
        self.settle_in(transaction, "CALL turno.release(?, ?, ?, ?, ?)", params).await
    }

    async fn settle_in(
        &self,
        transaction: &mut impl Queryable,
        sql: &str,
        params: Vec<Value>,
    ) -> Result<Settled> {
        let rows = exec(transaction, &self.text(sql), params).await.map_err(in_transaction)?;
        rows.first().map(rows::settled_single).ok_or_else(no_row)?
    }
}

/// A caller's transaction that cannot commit once a settle in it was refused or the server has lost it (rule S5).
pub struct SettlingTransaction<'b> {
    backend: &'b MysqlBackend,
    connection: Conn,
    lost: Option<ErrorKind>,
}

impl<'b> SettlingTransaction<'b> {
    /// Begins a transaction on a connection of the caller's own.
    pub async fn begin(backend: &'b MysqlBackend, mut connection: Conn) -> Result<Self> {
        connection.query_drop("START TRANSACTION").await.map_err(in_transaction)?;
        Ok(SettlingTransaction { backend, connection, lost: None })
    }

    /// For the caller's own statements. What they answer is the caller's to look at: an error 1213 in one of them has
    /// rolled the transaction back.
    pub fn connection(&mut self) -> &mut Conn {
        &mut self.connection
    }

    /// See [`MysqlBackend::enqueue_in`].
    pub async fn enqueue(&mut self, job: &NewJob) -> Result<Enqueued> {
        let result = self.backend.enqueue_in(&mut self.connection, job).await;
        self.noted(result)
    }

    /// See [`MysqlBackend::complete_in`].
    pub async fn complete(&mut self, worker: &str, completion: &Completion) -> Result<Settled> {
        let result = self.backend.complete_in(&mut self.connection, worker, completion).await;
        self.noted(result)
    }

    /// See [`MysqlBackend::fail_in`].
    pub async fn fail(&mut self, worker: &str, failure: &Failure) -> Result<Settled> {
        let result = self.backend.fail_in(&mut self.connection, worker, failure).await;
        self.noted(result)
    }

    /// See [`MysqlBackend::release_in`].
    pub async fn release(&mut self, worker: &str, release: &Release) -> Result<Settled> {
        let result = self.backend.release_in(&mut self.connection, worker, release).await;
        self.noted(result)
    }

    /// Commits and gives the connection back. Errors with the kind of the refusal, having rolled back, if a settle was
    /// refused; with `TransactionLost` if the server had rolled back.
    pub async fn commit(mut self) -> Result<Conn> {
        if let Some(kind) = self.lost {
            self.connection.query_drop("ROLLBACK").await.map_err(in_transaction)?;
            return Err(Error::new(kind, "a call in this transaction failed: it was rolled back"));
        }
        self.connection.query_drop("COMMIT").await.map_err(in_transaction)?;
        Ok(self.connection)
    }

    /// Rolls back and gives the connection back.
    pub async fn rollback(mut self) -> Result<Conn> {
        self.connection.query_drop("ROLLBACK").await.map_err(in_transaction)?;
        Ok(self.connection)
    }

    fn noted<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && error.kind() != ErrorKind::InvalidArgument
        {
            self.lost.get_or_insert(error.kind());
        }
        result
    }
}

fn no_row() -> Error {
    Error::new(ErrorKind::Internal, "the routine answered no row")
}
