-- schedule_resume: ends a pause. Nothing is fired for its time: the schedule counts from now, and is due at once, so that whoever ticks
-- next asks a calendar for the next instant. Resuming what is not paused changes nothing.
-- Takes: its name.
-- Returns: nothing.
-- Raises: TU002, TU005
-- Transaction: joins the caller's, or owns its own
-- Writes: schedule
-- Locks: the schedule's row
-- Rules: K8
CREATE OR ALTER PROCEDURE turno.schedule_resume @name nvarchar(4000)
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    DECLARE @own bit = IIF(@@TRANCOUNT = 0, 1, 0), @id varbinary(8000) = CONVERT(varbinary(8000), @name), @now datetime2(6) = SYSUTCDATETIME();
    IF @own = 0
        EXEC turno.join_check N'schedule_resume';
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    BEGIN TRY
        IF @own = 1
            BEGIN TRANSACTION;
        EXEC turno.schedule_lock @name;
        UPDATE turno.schedule WITH (ROWLOCK)
        SET revision = revision + 1, updated_at = @now, next_at = IIF(done_until > @now, done_until, @now),
            done_until = IIF(done_until > @now, done_until, @now), paused_at = NULL
        WHERE name = @id AND paused_at IS NOT NULL;
        IF @own = 1
            COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @own = 1 AND @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END CATCH;
END;
