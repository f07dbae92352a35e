-- fail_many: ends attempts as failed: a retry after a delay, or dead, or cancelled if that was asked for.
-- Takes: proofs as a JSON array of at most 1000 objects with job, attempt and token, error, retry_ms
--        (missing: by policy, -1: never again), error_bytes (the error's length before a client cut it); who sends them.
-- Returns: per proof its place: status done, already, refused or gone; the job's state; when it is due again; the reason of a
--          refusal.
-- Raises: TU001, TU002
-- Transaction: joins the caller's, or owns its own
-- Writes: job, attempt, finished_job, refused
-- Locks: job rows in id order
-- Rules: S1, S3, S4, S6, S7, F1, F3, F4, F5, F6, F7
CREATE OR ALTER PROCEDURE turno.fail_many @settles nvarchar(max), @worker nvarchar(4000) = NULL
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    EXEC turno.settle_many 'fail', @settles, @worker;
END;
