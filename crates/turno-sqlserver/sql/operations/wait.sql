-- wait: marks that somebody sleeps until one of these queues has work.
-- Takes: queues (a JSON array of names); for how many ms.
-- Returns: nothing.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: W2
-- DIFFERS: this server can notify a session only through Service Broker, which many databases have off and Azure SQL Database has not,
--          so there is nothing to mark: sleepers look again after a bounded pause, and a library rings for what its own process
--          enqueues. The routine is there so that one program runs on every engine.
CREATE OR ALTER PROCEDURE turno.wait @queues nvarchar(max), @ttl_ms bigint
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    IF @ttl_ms IS NULL OR @ttl_ms NOT BETWEEN 1 AND 3600000
        THROW 53101, N'a wait has 1..3600000 ms', 1;
    EXEC turno.list_check @queues, N'a wait names its queues as', 0, 1000, 1;
END;
