-- forget: removes the record of one ended job with its attempts and keys, whatever its retention.
-- Takes: the job.
-- Returns: nothing.
-- Raises: TU002; TU005 if there is no such job; TU006 if it has not ended
-- Transaction: joins the caller's, or owns its own
-- Writes: finished_job, attempt, enqueue_key
-- Locks: the rows of the job
-- Rules: P7
CREATE OR ALTER PROCEDURE turno.forget @job bigint
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    DECLARE @own bit = IIF(@@TRANCOUNT = 0, 1, 0), @state varchar(9), @ended varchar(9),
        @message nvarchar(200) = CONCAT(N'job ', @job, N' has not ended'), @ids nvarchar(30) = CONCAT(N'[', @job, N']');
    IF @own = 0
        EXEC turno.join_check N'forget';
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    BEGIN TRY
        IF @own = 1
            BEGIN TRANSACTION;
        EXEC turno.job_lock @job, @state OUTPUT, @ended OUTPUT;
        IF @state IS NOT NULL
            THROW 53106, @message, 1;
        EXEC turno.forget_rows @ids;
        IF @own = 1
            COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @own = 1 AND @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END CATCH;
END;
