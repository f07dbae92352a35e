-- pause: no claim that starts after this has committed gets a job of the queue.
-- Takes: the queue.
-- Returns: nothing.
-- Raises: TU001, TU002
-- Transaction: joins the caller's, or owns its own
-- Writes: queue
-- Locks: the queue's row
-- Rules: P5
CREATE OR ALTER PROCEDURE turno.pause @queue nvarchar(4000)
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    DECLARE @own bit = IIF(@@TRANCOUNT = 0, 1, 0);
    IF @own = 0
        EXEC turno.join_check N'pause';
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    IF COALESCE(DATALENGTH(@queue), 0) = 0
        THROW 53101, N'a queue is paused by its name', 1;
    BEGIN TRY
        IF @own = 1
            BEGIN TRANSACTION;
        EXEC turno.queue_row @queue;
        UPDATE turno.queue WITH (ROWLOCK) SET paused_at = COALESCE(paused_at, SYSUTCDATETIME()) WHERE queue = CONVERT(varbinary(400), @queue);
        IF @own = 1
            COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @own = 1 AND @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END CATCH;
END;
