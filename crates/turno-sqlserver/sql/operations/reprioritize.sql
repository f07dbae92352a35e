-- reprioritize: changes the priority of an unfinished job; its due time stays.
-- Takes: the job; the priority, -1000..1000.
-- Returns: nothing.
-- Raises: TU001, TU002; TU005 if there is no such job; TU006 if it has ended
-- Transaction: joins the caller's, or owns its own
-- Writes: job
-- Locks: the job's row
-- Rules: P4
CREATE OR ALTER PROCEDURE turno.reprioritize @job bigint, @priority bigint
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    DECLARE @own bit = IIF(@@TRANCOUNT = 0, 1, 0), @state varchar(9), @ended varchar(9), @message nvarchar(200);
    IF @own = 0
        EXEC turno.join_check N'reprioritize';
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    IF @priority IS NULL OR @priority NOT BETWEEN -1000 AND 1000
        THROW 53101, N'a priority is in -1000..1000', 1;
    BEGIN TRY
        IF @own = 1
            BEGIN TRANSACTION;
        EXEC turno.job_lock @job, @state OUTPUT, @ended OUTPUT;
        SET @message = CONCAT(N'job ', @job, N' has ended as ', @ended);
        IF @state IS NULL
            THROW 53106, @message, 1;
        UPDATE j
        SET rank = IIF(j.state = 'ready', DATEDIFF_BIG(microsecond, '1970-01-01', j.run_at) + @priority * q.step, j.rank), priority = @priority
        FROM turno.unfinished_job j WITH (ROWLOCK, FORCESEEK) CROSS APPLY turno.queue_settings(j.queue) q
        WHERE j.id = @job;
        IF @own = 1
            COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @own = 1 AND @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END CATCH;
END;
