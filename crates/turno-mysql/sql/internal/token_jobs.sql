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
    DECLARE v_place INT DEFAULT 0;
    DECLARE v_count BIGINT;
    DECLARE v_order LONGTEXT CHARACTER SET ascii DEFAULT '';
    -- The names in their order, as text to look a name up in: a join with them would copy every payload into a temporary table.
    WHILE JSON_LENGTH(p_queues) > 1 AND v_place < JSON_LENGTH(p_queues) DO
        SET v_order = CONCAT(v_order, HEX(JSON_UNQUOTE(JSON_EXTRACT(p_queues, CONCAT('$[', v_place, ']')))), ','), v_place = v_place + 1;
    END WHILE;
    SELECT COUNT(*) INTO v_count FROM (SELECT 1 AS one FROM turno.job j FORCE INDEX (job_token) WHERE j.token = p_token LIMIT 1) c;
    IF v_count = 0 AND p_next_due_in_ms IS NOT NULL THEN
        SELECT NULL AS id, NULL AS queue, NULL AS kind, NULL AS payload, NULL AS priority, NULL AS attempt, NULL AS token, NULL AS failures,
               NULL AS max_attempts, NULL AS operation_id, NULL AS run_at, NULL AS created_at, NULL AS claimed_at, NULL AS lease_until,
               NULL AS max_run_ms, NULL AS `rank`, NULL AS traceparent, p_next_due_in_ms AS next_due_in_ms;
    ELSE
        SELECT j.id, CONVERT(j.queue USING utf8mb4) AS queue, CONVERT(j.kind USING utf8mb4) AS kind, j.payload, j.priority, j.attempt,
               LOWER(HEX(j.token)) AS token, j.failures, j.max_attempts, LOWER(HEX(j.operation_id)) AS operation_id, j.run_at,
               j.created_at, j.claimed_at, j.lease_until, j.max_run_ms, j.rank, j.traceparent,
               p_next_due_in_ms AS next_due_in_ms
        FROM turno.job j FORCE INDEX (job_token) WHERE j.token = p_token
        ORDER BY IF(v_order = '', 0, LOCATE(CONCAT(',', HEX(j.queue), ','), CONCAT(',', v_order))), j.rank, j.id;
    END IF;
END
