-- token_jobs: the running jobs of one token.
-- Takes: the token; the queues, in whose order the jobs come (NULL: by rank alone); how long until the next job is due, or NULL.
-- Returns: jobs; if there are none and the next due time is known, one row with that alone.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: C5
CREATE PROCEDURE turno.token_jobs(IN p_token BINARY(16), IN p_queues LONGTEXT, IN p_next_due_in_ms BIGINT)
BEGIN
    SELECT j.id, CONVERT(j.queue USING utf8mb4) AS queue, CONVERT(j.kind USING utf8mb4) AS kind, j.payload, j.priority, j.attempt,
           LOWER(HEX(j.token)) AS token, j.failures, j.max_attempts, LOWER(HEX(j.operation_id)) AS operation_id, j.run_at,
           j.created_at, j.claimed_at, j.lease_until, j.max_run_ms, j.rank, j.traceparent,
           p_next_due_in_ms AS next_due_in_ms
    FROM (SELECT 1 AS one) always
    LEFT JOIN turno.job j FORCE INDEX (job_token) ON j.token = p_token
    LEFT JOIN (SELECT CAST(r.name AS BINARY) AS name, MIN(r.place) AS place
               FROM JSON_TABLE(COALESCE(p_queues, '[]'), '$[*]' COLUMNS (
                   place FOR ORDINALITY, name VARCHAR(200) CHARACTER SET utf8mb4 PATH '$')) r
               GROUP BY CAST(r.name AS BINARY)) q ON q.name = j.queue
    WHERE j.id IS NOT NULL OR p_next_due_in_ms IS NOT NULL
    ORDER BY q.place, j.rank, j.id;
END
