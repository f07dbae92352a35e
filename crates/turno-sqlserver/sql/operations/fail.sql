-- fail: ends one attempt as failed, in the caller's transaction. A refusal raises, and the transaction cannot commit.
-- Takes: the proof; the error; the retry delay in ms (NULL: by policy, -1: never again); who sends it or NULL.
-- Returns: status done or already; the job's state; when it is due again.
-- Raises: TU001, TU002; TU003 if the proof is not the current one, TU004 if the attempt was settled with another verb, TU005 if no
--         record is left
-- Transaction: joins the caller's, or owns its own
-- Writes: job, attempt, finished_job
-- Locks: the job's row
-- Rules: S1, S4, S5, F1, F3, F4, F5, F6
CREATE OR ALTER PROCEDURE turno.fail
    @job bigint, @attempt bigint, @token uniqueidentifier, @error nvarchar(max), @retry_ms bigint = NULL, @worker nvarchar(4000) = NULL
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    EXEC turno.settle_single 'fail', @job, @attempt, @token, @error, @retry_ms, @worker;
END;
