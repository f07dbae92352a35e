-- enqueue: puts one job into a queue, for anybody who may produce work. It has no priority: see enqueue_prioritized.
-- Takes: queue, kind, payload (JSON text); when it is due in microseconds since 1970 (NULL or past: now); the failure budget, the
--        time per attempt in ms, a unique key, an idempotency key, a traceparent (W3C; dropped if malformed),
--        each of which may be NULL.
-- Returns: the job's id, and whether this call created it.
-- Raises: TU001 beyond a limit; 3819 (MySQL) or 4025 (MariaDB) with the constraint's name, 1406 beyond a limit of a column
-- Transaction: joins the caller's, or owns its own
-- Writes: enqueue_key, unique_key, job
-- Locks: the idempotency key, then the unique key
-- Rules: E1, E2, E3, E4, E5, E12
CREATE PROCEDURE turno.enqueue(
    IN p_queue VARCHAR(255), IN p_kind VARCHAR(255), IN p_payload LONGTEXT, IN p_run_at BIGINT, IN p_max_attempts BIGINT,
    IN p_max_run_ms BIGINT, IN p_unique_key VARCHAR(1024), IN p_idempotency_key VARCHAR(1024),
    IN p_traceparent LONGTEXT)
BEGIN
    CALL turno.enqueue_single(p_queue, p_kind, p_payload, NULL, p_run_at, p_max_attempts, p_max_run_ms, p_unique_key, p_idempotency_key,
        p_traceparent);
END
