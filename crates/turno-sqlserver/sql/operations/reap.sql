-- reap: ends expired leases: back to waiting with back-off, dead, or cancelled if that was asked for. Anybody may run it at any time.
-- Takes: the most rows to touch; the grace in ms: if nobody has reaped for longer, it first waits one grace (0: it does not).
-- Returns: the jobs with their lost attempt and new state; or one row with a NULL job and how long the reaper holds back.
-- Raises: TU001, TU002
-- Transaction: owns its own, at READ COMMITTED
-- Writes: job, attempt, finished_job, reaper
-- Locks: job rows in order of their lease's end; skips those that somebody holds
-- Rules: R1, R2, R3, H2, C10
CREATE OR ALTER PROCEDURE turno.reap @limit bigint, @grace_ms bigint
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    EXEC turno.own_check N'reap';
    SET IMPLICIT_TRANSACTIONS OFF;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    EXEC turno.batch_check @limit;
    DECLARE @grace bigint = COALESCE(@grace_ms, 0), @lost nvarchar(max), @ready bigint, @hold bigint;
    IF @grace NOT BETWEEN 0 AND 86400000
        THROW 53101, N'a grace has 0..86400000 ms', 1;
    BEGIN TRY
        BEGIN TRANSACTION;
        EXEC turno.reap_expired @limit, @grace, @lost OUTPUT, @ready OUTPUT, @hold OUTPUT;
        COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END CATCH;
    SELECT l.job AS job_id, l.attempt, l.state, CONVERT(bigint, NULL) AS holding_for_ms
    FROM OPENJSON(@lost) WITH (job bigint '$.job', attempt bigint '$.attempt', state varchar(9) '$.state') l
    UNION ALL
    SELECT NULL, NULL, NULL, @hold WHERE @hold IS NOT NULL;
END;
