-- cancel: ends a waiting job as cancelled; asks a running one to stop, or with force revokes it.
-- Takes: the job; whether to revoke a running one at once.
-- Returns: answer cancelled, requested or too_late; for the last, the state in which the job had ended.
-- Raises: TU002, TU005
-- Transaction: joins the caller's, or owns its own
-- Writes: job, finished_job
-- Locks: the job's row
-- Rules: P1, P2
CREATE OR ALTER PROCEDURE turno.cancel @job bigint, @force bit = 0
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    DECLARE @own bit = IIF(@@TRANCOUNT = 0, 1, 0), @now datetime2(6), @state varchar(9), @ended varchar(9), @answer varchar(9),
        @verb varchar(8), @run_at datetime2(6);
    IF @own = 0
        EXEC turno.join_check N'cancel';
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    BEGIN TRY
        IF @own = 1
            BEGIN TRANSACTION;
        EXEC turno.job_lock @job, @state OUTPUT, @ended OUTPUT;
        SET @now = SYSUTCDATETIME();
        SET @answer = CASE WHEN @state IS NULL THEN 'too_late' WHEN @state = 'running' AND COALESCE(@force, 0) = 0 THEN 'requested'
                           ELSE 'cancelled' END;
        SET @verb = IIF(@state = 'running', 'revoke', NULL);
        IF @answer = 'requested'
            UPDATE turno.unfinished_job WITH (ROWLOCK) SET cancel_requested_at = COALESCE(cancel_requested_at, @now) WHERE id = @job;
        IF @answer = 'cancelled'
            EXEC turno.end_attempt @job, @verb, NULL, NULL, NULL, NULL, @now, @state OUTPUT, @run_at OUTPUT;
        IF @own = 1
            COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @own = 1 AND @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END CATCH;
    SELECT @answer AS answer, @ended AS state;
END;
