-- promote: makes due scheduled jobs ready. Every claim does this for its own queues.
-- Takes: queues as a JSON array of names (NULL or empty: all), the most rows to touch.
-- Returns: how many jobs became ready.
-- Raises: TU001, TU002
-- Transaction: owns its own, at READ COMMITTED
-- Writes: job
-- Locks: job rows in due order; skips those that somebody holds
-- Rules: C3, H2, C10
CREATE OR ALTER PROCEDURE turno.promote @queues nvarchar(max), @limit bigint
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    EXEC turno.own_check N'promote';
    SET IMPLICIT_TRANSACTIONS OFF;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    EXEC turno.batch_check @limit;
    DECLARE @names nvarchar(max) = COALESCE(@queues, N'[]'), @count bigint, @queue varbinary(400);
    DECLARE @all TABLE (queue varbinary(400) NOT NULL PRIMARY KEY);
    EXEC turno.list_check @names, N'promote names its queues as', 0, 1000, 1;
    BEGIN TRY
        BEGIN TRANSACTION;
        IF @names = N'[]'
        BEGIN
            INSERT INTO @all (queue) SELECT n.queue FROM turno.queue_names() n;
            SELECT @queue = MIN(queue), @names = N'[' FROM @all;
            WHILE @queue IS NOT NULL
            BEGIN
                SET @names += IIF(@names = N'[', N'"', N',"') + STRING_ESCAPE(CONVERT(nvarchar(200), @queue), 'json') + N'"';
                SELECT @queue = MIN(queue) FROM @all WHERE queue > @queue;
            END;
            SET @names += N']';
        END;
        EXEC turno.promote_due @names, @limit, @count OUTPUT;
        COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END CATCH;
    SELECT @count AS promoted;
END;
