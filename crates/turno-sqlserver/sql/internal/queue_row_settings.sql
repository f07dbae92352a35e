-- queue_row_settings: what holds for one queue, as the routines show it: without settings of its own it shows the installation's.
-- Takes: the queue's name as it is stored. Returns: one row.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none that lasts
-- Rules: P6
CREATE OR ALTER FUNCTION turno.queue_row_settings(@queue varbinary(400)) RETURNS TABLE
AS
RETURN
    SELECT CONVERT(nvarchar(200), @queue) AS queue, IIF(q.queue = @queue, q.description, NULL) AS description,
           IIF(q.queue = @queue, q.paused_at, NULL) AS paused_at, q.aging_ms, q.max_attempts, q.max_run_ms, q.retry_base_ms, q.retry_cap_ms,
           q.max_attempts_limit, q.max_run_limit_ms, q.run_at_horizon_ms, q.keep_succeeded_ms, q.keep_cancelled_ms, q.keep_dead_ms,
           q.receipts_ms
    FROM turno.queue_settings(@queue) q;
