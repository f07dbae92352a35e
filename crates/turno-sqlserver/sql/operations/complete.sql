-- complete: ends one attempt as succeeded, in the caller's transaction, so that the job's effects in this database and its
-- completion commit together. A refusal raises, and the transaction cannot commit: report it by refused_record afterwards.
-- Takes: the proof; the result (JSON text or NULL); who sends it or NULL.
-- Returns: status done or already; the job's state; when it is due again.
-- Raises: TU001, TU002; TU003 if the proof is not the current one, TU004 if the attempt was settled with another verb, TU005 if no
--         record is left
-- Transaction: joins the caller's, or owns its own
-- Writes: job, finished_job; enqueue_key and attempt if nothing is kept
-- Locks: the job's row
-- Rules: S1, S4, S5, O2, O5
CREATE OR ALTER PROCEDURE turno.complete
    @job bigint, @attempt bigint, @token uniqueidentifier, @result nvarchar(max) = NULL, @worker nvarchar(4000) = NULL
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    EXEC turno.settle_single 'complete', @job, @attempt, @token, @result, NULL, @worker;
END;
