-- attempts: the ended attempts of one job, in order, the last one from its history.
-- Takes: the job.
-- Returns: attempt, worker, when it was claimed, started and ended, the verb that ended it, whether it was charged, its error and
--          the error's length before it was cut.
-- Raises: TU002
-- Transaction: any but one at SNAPSHOT
-- Writes: nothing
-- Locks: none that lasts
-- Rules: F7
CREATE OR ALTER PROCEDURE turno.attempts @job bigint
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    IF @@TRANCOUNT > 0
        EXEC turno.join_check N'attempts', 0;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SELECT a.attempt, CONVERT(nvarchar(200), a.worker) AS worker, a.claimed_at, a.started_at, a.ended_at, a.verb, a.charged, a.error,
           a.error_bytes
    FROM turno.attempt a WITH (FORCESEEK) WHERE a.job_id = @job
    UNION ALL
    SELECT f.attempt, CONVERT(nvarchar(200), f.worker), f.claimed_at, f.started_at, f.finished_at, f.verb, f.charged, f.error, f.error_bytes
    FROM turno.finished_job f WITH (FORCESEEK) WHERE f.id = @job AND f.verb IS NOT NULL
    ORDER BY attempt;
END;
