-- enqueue_many_prioritized: enqueue_many with priorities, which is the scheduler's right alone.
-- Takes: a JSON array of at most 1000 objects with queue, kind and payload (a string that holds JSON text), and if wanted priority,
--        run_at (UTC, as 2026-01-31T12:00:00.000), max_attempts, max_run_ms, unique_key, idempotency_key, traceparent.
-- Returns: per row its place (from 1), the job's id, whether this call created it; in the order of the input.
-- Raises: TU001 beyond a limit, with the row's place; TU002; 53107 if a key cannot be locked
-- Transaction: joins the caller's, or owns its own
-- Writes: enqueue_key, job
-- Locks: idempotency keys in key order, then unique keys in key order
-- Rules: E1, E2, E7, E12
CREATE OR ALTER PROCEDURE turno.enqueue_many_prioritized @jobs nvarchar(max)
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    EXEC turno.enqueue_rows @jobs, 1;
END;
