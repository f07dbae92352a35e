-- queue_row: gives a queue settings of its own, a copy of the installation's, if it has none.
-- Takes: the queue. Returns: nothing.
-- Raises: TU001 if the name is not one
-- Transaction: joins the caller's
-- Writes: queue
-- Locks: the gap where the queue's row will be, until the transaction ends: a rare operation, so that one statement is enough
-- Rules: P6
CREATE OR ALTER PROCEDURE turno.queue_row @queue nvarchar(4000)
AS
BEGIN
    DECLARE @bad nvarchar(100) = IIF(DATALENGTH(@queue) = 0, NULL, turno.bad_name(N'queue', @queue)), @name varbinary(400);
    IF @bad IS NOT NULL
        THROW 53101, @bad, 1;
    SET @name = CONVERT(varbinary(400), @queue);
    INSERT INTO turno.queue (queue, aging_ms, max_attempts, max_run_ms, retry_base_ms, retry_cap_ms, max_attempts_limit, max_run_limit_ms,
        run_at_horizon_ms, keep_succeeded_ms, keep_cancelled_ms, keep_dead_ms, receipts_ms)
    SELECT @name, d.aging_ms, d.max_attempts, d.max_run_ms, d.retry_base_ms, d.retry_cap_ms, d.max_attempts_limit, d.max_run_limit_ms,
           d.run_at_horizon_ms, d.keep_succeeded_ms, d.keep_cancelled_ms, d.keep_dead_ms, d.receipts_ms
    FROM turno.queue d
    WHERE d.queue = 0x AND NOT EXISTS (SELECT 1 FROM turno.queue q WITH (UPDLOCK, HOLDLOCK) WHERE q.queue = @name);
END;
