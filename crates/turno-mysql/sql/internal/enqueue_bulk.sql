-- enqueue_bulk: inserts the rows of a batch that have no key, in one statement, after all rows of it were checked.
-- Takes: the batch, whether priorities are obeyed, now.
-- Returns: the first twelve bytes of the operation ids of these rows, the last four being their places; the first id.
-- Raises: TU001 with the row's number; 3819 (MySQL) or 4025 (MariaDB), 1406, 1048
-- Transaction: joins the caller's
-- Writes: job
-- Locks: none that anybody else needs; under REPEATABLE READ the settings that it reads, until the transaction ends
-- Rules: E1, E7, E11, E12, T3
CREATE PROCEDURE turno.enqueue_bulk(
    IN p_jobs LONGTEXT, IN p_prioritized BOOLEAN, IN p_now BIGINT, OUT p_base BINARY(12), OUT p_first BIGINT)
BEGIN
    DECLARE v_id BINARY(16);
    CALL turno.random_id(v_id);
    SET p_base = LEFT(v_id, 12);
    INSERT INTO turno.job (queue, kind, payload, priority, state, `rank`, run_at, first_due_at, created_at, max_attempts, max_run_ms,
        operation_id, traceparent)
    SELECT r.queue, r.kind, r.payload, r.priority, IF(r.due_at <= p_now, 'ready', 'scheduled'),
           IF(r.due_at <= p_now, r.due_at + r.priority * COALESCE(q.aging_ms * 1000, 4503599627370496), NULL),
           r.due_at, r.due_at, p_now, COALESCE(r.max_attempts, q.max_attempts), COALESCE(r.max_run_ms, q.max_run_ms),
           CONCAT(p_base, UNHEX(LPAD(HEX(r.place), 8, '0'))),
           IF(LENGTH(r.traceparent) = 55 AND r.traceparent COLLATE utf8mb4_bin REGEXP
              '^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$', r.traceparent, NULL)
    FROM (SELECT t.place, CAST(t.queue AS BINARY) AS queue, t.kind, t.payload, IF(p_prioritized, COALESCE(t.priority, 0), 0) AS priority,
                 t.max_attempts, t.max_run_ms, t.traceparent,
                 GREATEST(p_now, COALESCE((GREATEST(t.run_at, 0) + 999) DIV 1000 * 1000, 0)) AS due_at
          FROM JSON_TABLE(p_jobs, '$[*]' COLUMNS (
              place FOR ORDINALITY, queue VARCHAR(255) CHARACTER SET utf8mb4 PATH '$.queue',
              kind VARCHAR(255) CHARACTER SET utf8mb4 PATH '$.kind', run_at BIGINT PATH '$.run_at', priority BIGINT PATH '$.priority',
              max_attempts BIGINT PATH '$.max_attempts', max_run_ms BIGINT PATH '$.max_run_ms',
              unique_key VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$.unique_key',
              idempotency_key VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$.idempotency_key',
              payload LONGTEXT CHARACTER SET utf8mb4 PATH '$.payload',
              traceparent LONGTEXT CHARACTER SET utf8mb4 PATH '$.traceparent')) t
          WHERE t.unique_key IS NULL AND t.idempotency_key IS NULL) r
    STRAIGHT_JOIN turno.queue q FORCE INDEX (PRIMARY) ON q.queue = (SELECT MAX(s.queue) FROM turno.queue s WHERE s.queue IN (r.queue, ''))
    ORDER BY r.place;
    SET p_first = IF(ROW_COUNT() > 0, LAST_INSERT_ID(), NULL);
END
