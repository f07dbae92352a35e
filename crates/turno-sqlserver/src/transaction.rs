//! Operations inside the caller's own transaction. What we would retry in a transaction of our own goes up as
//! `TransactionLost` here: the caller's work is rolled back with it (rule X3). Any error does that on this server, since
//! the routines run with XACT_ABORT: the session then has no transaction, and each further statement commits by itself.

use turno_contract::{
    Completion, Enqueued, Error, ErrorKind, Failure, NewJob, Release, Result, Retry, Settled, check_jobs,
    check_json, check_name, cut_error, whole_ms,
};

use crate::batch::enqueue_call;
use crate::call::{Connection, Value, exec, run};
use crate::error::in_transaction;
use crate::{SqlServerBackend, rows};

impl SqlServerBackend {
    /// Enqueues inside the caller's transaction: the job exists if and when that commits (rule E1).
    ///
    /// Errors: `InvalidArgument` before anything was sent, after which the transaction is as it was. After any error of the
    /// server the transaction is gone, and further statements commit by themselves ([`SettlingTransaction`] sees to that).
    pub async fn enqueue_in(&self, transaction: &mut Connection, job: &NewJob) -> Result<Enqueued> {
        check_jobs(std::slice::from_ref(job), self.payload_bytes_max())?;
        let call = enqueue_call(job);
        let rows = exec(transaction, &self.text(&call.sql), &call.params).await.map_err(in_transaction)?;
        self.ring_after_commit();
        rows.first().map(rows::enqueued).ok_or_else(no_row)?
    }

    /// Completes inside the caller's transaction, so that the job's effects in this database and its completion commit
    /// together (rule S5).
    ///
    /// Errors: `LeaseLost`, `Conflict`, `NotFound` if it is refused, `TransactionLost`. After any of these the transaction
    /// is gone, and further statements commit by themselves ([`SettlingTransaction`] sees to that): report a refusal by
    /// [`refused_record`](turno_contract::Backend::refused_record) afterwards.
    pub async fn complete_in(
        &self,
        transaction: &mut Connection,
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
            proof.token.as_uuid().into(),
            completion.result.as_deref().into(),
            worker.into(),
        ];
        self.settle_in(transaction, "EXEC turno.complete @P1, @P2, @P3, @P4, @P5", params).await
    }

    /// Fails inside the caller's transaction; see [`complete_in`](SqlServerBackend::complete_in).
    pub async fn fail_in(
        &self,
        transaction: &mut Connection,
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
            proof.token.as_uuid().into(),
            cut_error(&failure.error).0.into(),
            retry.into(),
            worker.into(),
        ];
        self.settle_in(transaction, "EXEC turno.fail @P1, @P2, @P3, @P4, @P5, @P6", params).await
    }

    /// Releases inside the caller's transaction; see [`complete_in`](SqlServerBackend::complete_in).
    pub async fn release_in(
        &self,
        transaction: &mut Connection,
        worker: &str,
        release: &Release,
    ) -> Result<Settled> {
        check_name("worker", worker)?;
        let proof = release.proof;
        let params = vec![
            proof.job.0.into(),
            proof.attempt.into(),
            proof.token.as_uuid().into(),
            release.delay.map(whole_ms).into(),
            worker.into(),
        ];
        self.settle_in(transaction, "EXEC turno.release @P1, @P2, @P3, @P4, @P5", params).await
    }

    async fn settle_in(
        &self,
        transaction: &mut Connection,
        sql: &str,
        params: Vec<Value>,
    ) -> Result<Settled> {
        let rows = exec(transaction, &self.text(sql), &params).await.map_err(in_transaction)?;
        rows.first().map(rows::settled_single).ok_or_else(no_row)?
    }
}

/// A caller's transaction that cannot commit, and runs no further call of ours, once one of them failed (rule S5).
pub struct SettlingTransaction<'b> {
    backend: &'b SqlServerBackend,
    connection: Connection,
    lost: Option<ErrorKind>,
}

impl<'b> SettlingTransaction<'b> {
    /// Begins a transaction on a connection of the caller's own.
    pub async fn begin(backend: &'b SqlServerBackend, mut connection: Connection) -> Result<Self> {
        run(&mut connection, BEGIN).await.map_err(in_transaction)?;
        Ok(SettlingTransaction { backend, connection, lost: None })
    }

    /// For the caller's own statements. An error in one of them rolls the transaction back, since XACT_ABORT is on; the next
    /// call of ours, and the commit, find out.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// See [`SqlServerBackend::enqueue_in`].
    pub async fn enqueue(&mut self, job: &NewJob) -> Result<Enqueued> {
        self.check().await?;
        let result = self.backend.enqueue_in(&mut self.connection, job).await;
        self.noted(result)
    }

    /// See [`SqlServerBackend::complete_in`].
    pub async fn complete(&mut self, worker: &str, completion: &Completion) -> Result<Settled> {
        self.check().await?;
        let result = self.backend.complete_in(&mut self.connection, worker, completion).await;
        self.noted(result)
    }

    /// See [`SqlServerBackend::fail_in`].
    pub async fn fail(&mut self, worker: &str, failure: &Failure) -> Result<Settled> {
        self.check().await?;
        let result = self.backend.fail_in(&mut self.connection, worker, failure).await;
        self.noted(result)
    }

    /// See [`SqlServerBackend::release_in`].
    pub async fn release(&mut self, worker: &str, release: &Release) -> Result<Settled> {
        self.check().await?;
        let result = self.backend.release_in(&mut self.connection, worker, release).await;
        self.noted(result)
    }

    /// Commits and gives the connection back. Errors with the kind of the refusal, having rolled back, if a call was
    /// refused; with `TransactionLost` if the server had rolled back. The connection is then closed.
    pub async fn commit(mut self) -> Result<Connection> {
        if let Some(kind) = self.lost {
            return Err(Error::new(kind, "a call in this transaction failed: it was rolled back"));
        }
        self.check().await?;
        run(&mut self.connection, "COMMIT TRANSACTION").await.map_err(in_transaction)?;
        Ok(self.connection)
    }

    /// Rolls back and gives the connection back.
    pub async fn rollback(mut self) -> Result<Connection> {
        run(&mut self.connection, "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION").await.map_err(in_transaction)?;
        Ok(self.connection)
    }

    /// Whether the server still has this transaction. If an error took it away, a call of ours would commit by itself.
    async fn check(&mut self) -> Result<()> {
        if let Some(kind) = self.lost {
            return Err(Error::new(kind, "a call in this transaction failed: it was rolled back"));
        }
        let rows = run(&mut self.connection, "SELECT XACT_STATE() AS state").await;
        let state = match rows.map_err(in_transaction) {
            Ok(rows) => rows.first().map(|row| rows::get::<i64>(row, "state")).transpose(),
            Err(error) => Err(error),
        };
        if let Ok(Some(1)) = state {
            return Ok(());
        }
        self.lost = Some(ErrorKind::TransactionLost);
        Err(Error::new(ErrorKind::TransactionLost, "an error has rolled this transaction back"))
    }

    fn noted<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.lost.get_or_insert(error.kind());
        }
        result
    }
}

/// At READ COMMITTED, as everywhere; an error must not leave a transaction that only looks whole.
const BEGIN: &str = "SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN TRANSACTION";

fn no_row() -> Error {
    Error::new(ErrorKind::Internal, "the routine answered no row")
}
