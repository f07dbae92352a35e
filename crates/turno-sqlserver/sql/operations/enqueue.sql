-- enqueue: puts one job into a queue, for anybody who may produce work. It has no priority: see enqueue_prioritized.
-- Takes: queue, kind, payload (JSON text); when it is due, in UTC (NULL or past: now); the failure budget, the time per attempt in
--        ms, a unique key, an idempotency key, a traceparent (W3C; dropped if malformed), each of
--        which may be NULL.
-- Returns: the job's id, and whether this call created it.
-- Raises: TU001 beyond a limit, TU002; 53107 if a key cannot be locked
-- Transaction: joins the caller's, or owns its own
-- Writes: enqueue_key, job
-- Locks: the idempotency key, then the unique key
-- Rules: E1, E2, E3, E4, E5, E12
CREATE OR ALTER PROCEDURE turno.enqueue
    @queue nvarchar(4000), @kind nvarchar(4000), @payload nvarchar(max), @run_at datetime2(6) = NULL, @max_attempts bigint = NULL,
    @max_run_ms bigint = NULL, @unique_key nvarchar(4000) = NULL, @idempotency_key nvarchar(4000) = NULL,
    @traceparent nvarchar(max) = NULL
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    EXEC turno.enqueue_single @queue, @kind, @payload, NULL, @run_at, @max_attempts, @max_run_ms, @unique_key, @idempotency_key,
        @traceparent;
END;
