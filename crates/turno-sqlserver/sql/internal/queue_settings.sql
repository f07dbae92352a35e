-- queue_settings: the settings that hold for a queue: its own, or the installation's.
-- Takes: the queue's name as it is stored. Returns: one row of turno.queue.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none that lasts; without READ_COMMITTED_SNAPSHOT it waits for somebody who is changing the row
-- Rules: P6
CREATE OR ALTER FUNCTION turno.queue_settings(@queue varbinary(400)) RETURNS TABLE
AS
RETURN
    SELECT TOP (1) q.queue, q.description, q.paused_at, q.aging_ms, q.max_attempts, q.max_run_ms, q.retry_base_ms, q.retry_cap_ms,
           q.max_attempts_limit, q.max_run_limit_ms, q.run_at_horizon_ms, q.keep_succeeded_ms, q.keep_cancelled_ms, q.keep_dead_ms,
           q.receipts_ms, COALESCE(q.aging_ms * 1000, 4503599627370496) AS step
    FROM turno.queue q
    WHERE q.queue IN (@queue, 0x)
    ORDER BY q.queue DESC;
