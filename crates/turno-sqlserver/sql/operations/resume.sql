-- resume: ends a pause.
-- Takes: the queue.
-- Returns: nothing.
-- Raises: TU002
-- Transaction: joins the caller's, or owns its own
-- Writes: queue
-- Locks: the queue's row
-- Rules: P5
CREATE OR ALTER PROCEDURE turno.resume @queue nvarchar(4000)
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    IF @@TRANCOUNT > 0
        EXEC turno.join_check N'resume';
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    -- One statement: it is a transaction by itself, or part of the caller's.
    UPDATE turno.queue WITH (ROWLOCK) SET paused_at = NULL WHERE DATALENGTH(@queue) <= 400 AND queue = CONVERT(varbinary(400), @queue);
END;
