-- enqueue_many: puts many jobs into queues, all or none.
-- Takes: a JSON array of at most 1000 objects with queue, kind and payload (a string that holds JSON text), and if wanted run_at
--        (microseconds since 1970), max_attempts, max_run_ms, unique_key, idempotency_key, traceparent. Do not escape other than ASCII characters:
--        MariaDB spoils escaped pairs of surrogates.
-- Returns: per row its place (from 1), the job's id, whether this call created it; in the order of the input.
-- Raises: TU001 beyond a limit, with the row's place; 3819 (MySQL) or 4025 (MariaDB), 1406 beyond a limit of a column
-- Transaction: joins the caller's, or owns its own
-- Writes: enqueue_key, unique_key, job
-- Locks: idempotency keys in key order, then unique keys in key order
-- Rules: E1, E2, E7, E12
CREATE PROCEDURE turno.enqueue_many(IN p_jobs LONGTEXT)
BEGIN
    CALL turno.enqueue_rows(p_jobs, FALSE);
END
