-- job_records: everything known about unfinished and ended jobs, in one shape and without tokens.
-- Takes: ids as a JSON array; where a search stopped, or NULL. Returns: a row for each that exists, newest id first, and a last row
--        that has nothing but an id for the place where the search stopped.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: O6
CREATE PROCEDURE turno.job_records(IN p_ids LONGTEXT, IN p_stop BIGINT)
BEGIN
    SELECT j.id, CONVERT(j.queue USING utf8mb4) AS queue, CONVERT(j.kind USING utf8mb4) AS kind, j.state, j.payload, j.priority,
           j.attempt, j.failures, j.max_attempts, j.max_run_ms, LOWER(HEX(j.operation_id)) AS operation_id,
           CONVERT(j.unique_key USING utf8mb4) AS unique_key, j.created_at, j.run_at,
           CONVERT(COALESCE(j.worker, a.worker) USING utf8mb4) AS worker, COALESCE(j.claimed_at, a.claimed_at) AS claimed_at,
           j.lease_until, j.cancel_requested_at, NULL AS finished_at, NULL AS result, a.error,
           j.traceparent, 0 AS is_stop
    FROM JSON_TABLE(p_ids, '$[*]' COLUMNS (id BIGINT PATH '$')) r STRAIGHT_JOIN turno.job j FORCE INDEX (PRIMARY) ON j.id = r.id
    LEFT JOIN turno.attempt a FORCE INDEX (PRIMARY) ON a.job_id = j.id
        AND a.attempt = (SELECT MAX(l.attempt) FROM turno.attempt l WHERE l.job_id = j.id)
    UNION ALL
    SELECT f.id, CONVERT(f.queue USING utf8mb4), CONVERT(f.kind USING utf8mb4), f.outcome, f.payload, f.priority, f.attempt,
           f.failures, f.max_attempts, f.max_run_ms, LOWER(HEX(f.operation_id)), CONVERT(f.unique_key USING utf8mb4),
           f.created_at, f.run_at, CONVERT(f.worker USING utf8mb4), f.claimed_at, NULL, NULL, f.finished_at, f.result, f.error,
           f.traceparent, 0
    FROM JSON_TABLE(p_ids, '$[*]' COLUMNS (id BIGINT PATH '$')) r STRAIGHT_JOIN turno.finished_job f FORCE INDEX (PRIMARY) ON f.id = r.id
    UNION ALL
    SELECT p_stop, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
           NULL, NULL, 1 FROM DUAL WHERE p_stop IS NOT NULL
    ORDER BY is_stop, id DESC;
END
