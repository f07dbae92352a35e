//! turno inside a caller's own transaction: the job and the caller's rows commit together, or neither does (rules E1,
//! S5). The connection must be to the database that has turno's tables. Refuses to commit after a refused settle.

use std::ops::Deref;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use turno_contract::{
    Completion, Enqueued, Error, ErrorKind, Failure, NewJob, Release, Result, Settled, limits,
};

use crate::error::{in_transaction, of_commit, of_engine};
use crate::operations::enqueue;
use crate::operations::settle::{Settle, settle_or_error};
use crate::work::Work;

/// Enqueues a job in the caller's transaction, which should have begun with `BEGIN IMMEDIATE`. The payload's limit is
/// the default, 1 MiB.
///
/// Errors: `InvalidArgument`; `Busy` if the transaction cannot write; `VersionMismatch` if there is no schema.
pub fn enqueue_in(transaction: &Transaction, job: &NewJob) -> Result<Enqueued> {
    let answers = enqueue_many_in(transaction, std::slice::from_ref(job))?;
    answers.into_iter().next().ok_or_else(|| Error::new(ErrorKind::Internal, "no answer for one job"))
}

/// Enqueues all the jobs or none in the caller's transaction, and answers in their order.
///
/// Errors: as [`enqueue_in`], with the row's number; what was written before the error is undone.
pub fn enqueue_many_in(transaction: &Transaction, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
    enqueue::check(jobs, limits::PAYLOAD_BYTES_MAX_DEFAULT)?;
    undone_if_it_fails(transaction, |work| enqueue::enqueue(work, jobs))
}

/// Completes a job in the caller's transaction: the handler's own rows and its completion commit together.
///
/// Errors: `LeaseLost`, `Conflict` (`already settled as ...`) or `NotFound` for a refusal, after which the transaction
/// cannot be committed; report it with `refused_record` on the backend.
pub fn complete_in(
    transaction: &mut SettlingTransaction,
    worker: &str,
    completion: &Completion,
) -> Result<Settled> {
    transaction.complete(worker, completion)
}

/// A transaction in which jobs are settled. Statements of your own run on it as on a [`Connection`]. After a refused
/// settle it can only be rolled back, which dropping it does.
pub struct SettlingTransaction<'c> {
    transaction: Transaction<'c>,
    refused: Option<Error>,
}

impl<'c> SettlingTransaction<'c> {
    /// Begins a transaction that can write from its first statement on (`BEGIN IMMEDIATE`).
    ///
    /// Errors: `Busy` if somebody else writes for longer than the connection's busy timeout.
    pub fn begin(connection: &'c mut Connection) -> Result<Self> {
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(of_engine)?;
        Ok(SettlingTransaction { transaction, refused: None })
    }

    /// Takes over a transaction that has begun.
    pub fn new(transaction: Transaction<'c>) -> Self {
        SettlingTransaction { transaction, refused: None }
    }

    /// See [`enqueue_in`].
    pub fn enqueue(&self, job: &NewJob) -> Result<Enqueued> {
        enqueue_in(&self.transaction, job)
    }

    /// See [`complete_in`].
    pub fn complete(&mut self, worker: &str, completion: &Completion) -> Result<Settled> {
        self.settle(worker, Settle::complete(completion, limits::PAYLOAD_BYTES_MAX_DEFAULT))
    }

    /// The same for a failure.
    pub fn fail(&mut self, worker: &str, failure: &Failure) -> Result<Settled> {
        self.settle(worker, Settle::fail(failure))
    }

    /// The same for a release.
    pub fn release(&mut self, worker: &str, release: &Release) -> Result<Settled> {
        self.settle(worker, Settle::release(release))
    }

    fn settle(&mut self, worker: &str, settle: Result<Settle>) -> Result<Settled> {
        crate::operations::settle::check_worker(worker)?;
        let settle = settle?;
        let answer = undone_if_it_fails(&self.transaction, |work| settle_or_error(work, &settle));
        if let Err(error) = &answer {
            self.refused = Some(Error::new(error.kind(), error.message()));
        }
        answer
    }

    /// Commits. Errors with the refusal's kind if a settle was refused: then nothing is committed.
    pub fn commit(self) -> Result<()> {
        match self.refused {
            Some(refused) => {
                let message = format!("rolled back, since a settle in it was refused: {}", refused.message());
                Err(Error::new(refused.kind(), message).with_source(refused))
            }
            None => self.transaction.commit().map_err(of_commit),
        }
    }

    /// Rolls back.
    pub fn rollback(self) -> Result<()> {
        self.transaction.rollback().map_err(of_engine)
    }
}

impl Deref for SettlingTransaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.transaction
    }
}

/// Runs statements behind a savepoint, so that an error leaves the caller's transaction as it was.
fn undone_if_it_fails<T>(transaction: &Transaction, body: impl FnOnce(&Work) -> Result<T>) -> Result<T> {
    let run = || {
        let work = Work::new(transaction)?;
        transaction.execute_batch("SAVEPOINT turno_operation").map_err(of_engine)?;
        let answer = body(&work);
        // The engine may have rolled back the whole transaction; then there is no savepoint left.
        if !transaction.is_autocommit() {
            if answer.is_err() {
                transaction.execute_batch("ROLLBACK TO turno_operation").map_err(of_engine)?;
            }
            transaction.execute_batch("RELEASE turno_operation").map_err(of_engine)?;
        }
        answer
    };
    let answer = run().map_err(in_transaction);
    match answer {
        Err(error) if transaction.is_autocommit() => {
            let message = format!("the whole transaction was rolled back: {}", error.message());
            Err(Error::new(ErrorKind::TransactionLost, message).with_source(error))
        }
        answer => answer,
    }
}
