-- complete_many: ends attempts as succeeded. A refusal is an answer, and commits with its row in the ledger.
-- Takes: proofs as a JSON array of at most 1000 objects with job, attempt and token, and result (a string that
--        holds JSON text) if there is one; who sends them.
-- Returns: per proof its place: status done, already, refused or gone; the job's state; when it is due again; the reason of a
--          refusal.
-- Raises: TU001, TU002
-- Transaction: joins the caller's, or owns its own
-- Writes: job, attempt, finished_job, refused
-- Locks: job rows in id order
-- Rules: S1, S3, S4, S6, S7, O2, O5, P7, P8
CREATE OR ALTER PROCEDURE turno.complete_many @settles nvarchar(max), @worker nvarchar(4000) = NULL
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    EXEC turno.settle_many 'complete', @settles, @worker;
END;
