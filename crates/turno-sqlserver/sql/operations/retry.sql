-- retry: runs a dead job again: failures 0, due now, with the same id and operation id; its attempt goes on.
-- Takes: the job.
-- Returns: nothing.
-- Raises: TU002; TU005 if there is no such job; TU006 if it is not dead, its payload was not kept, or its unique key is taken
-- Transaction: joins the caller's, or owns its own
-- Writes: job, attempt, finished_job
-- Locks: the row of the history, then the unique key
-- Rules: P3, F7
CREATE OR ALTER PROCEDURE turno.retry @job bigint
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    DECLARE @own bit = IIF(@@TRANCOUNT = 0, 1, 0), @now datetime2(6) = SYSUTCDATETIME(), @bad nvarchar(200), @message nvarchar(400);
    IF @own = 0
        EXEC turno.join_check N'retry';
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    BEGIN TRY
        IF @own = 1
            BEGIN TRANSACTION;
        EXEC turno.retry_check @job, @bad OUTPUT;
        IF @bad IS NULL
            EXEC turno.retry_insert @job, @now, @bad OUTPUT;
        SET @message = CONCAT(N'job ', @job, N' cannot be retried: ', @bad);
        IF @bad IS NOT NULL
            THROW 53106, @message, 1;
        INSERT INTO turno.attempt (job_id, attempt, queue, verb, token_hash, worker, claimed_at, started_at, ended_at, charged, error,
            error_bytes, state, run_at)
        SELECT f.id, f.attempt, f.queue, f.verb, f.token_hash, f.worker, f.claimed_at, f.started_at, f.finished_at, f.charged, f.error,
               f.error_bytes, 'dead', @now
        FROM turno.finished_job f WITH (ROWLOCK, FORCESEEK) WHERE f.id = @job AND f.verb IS NOT NULL;
        DELETE a FROM turno.attempt a WITH (ROWLOCK, FORCESEEK)
        JOIN turno.finished_job f WITH (ROWLOCK, FORCESEEK) ON a.job_id = f.id AND a.attempt = f.attempt - 100
        WHERE f.id = @job AND f.attempt > 200
        OPTION (FORCE ORDER);
        DELETE FROM turno.finished_job WITH (ROWLOCK) WHERE id = @job;
        IF @own = 1
            COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @own = 1 AND @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END CATCH;
END;
