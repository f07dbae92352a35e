-- queue_rows: the settings of these queues, in order; a queue without settings of its own shows the installation's.
-- Takes: names as a JSON array. Returns: a row for each.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: P6
CREATE PROCEDURE turno.queue_rows(IN p_queues LONGTEXT)
BEGIN
    SELECT n.name AS queue, IF(q.queue = n.bytes, q.description, NULL) AS description,
           IF(q.queue = n.bytes, q.paused_at, NULL) AS paused_at, q.aging_ms, q.max_attempts, q.max_run_ms, q.retry_base_ms,
           q.retry_cap_ms, q.max_attempts_limit, q.max_run_limit_ms, q.run_at_horizon_ms, q.keep_succeeded_ms, q.keep_cancelled_ms,
           q.keep_dead_ms, q.receipts_ms
    FROM (SELECT r.place, r.name, CAST(r.name AS BINARY) AS bytes
          FROM JSON_TABLE(p_queues, '$[*]' COLUMNS (
              place FOR ORDINALITY, name VARCHAR(255) CHARACTER SET utf8mb4 PATH '$')) r) n
    STRAIGHT_JOIN turno.queue q FORCE INDEX (PRIMARY) ON q.queue = (SELECT MAX(s.queue) FROM turno.queue s WHERE s.queue IN (n.bytes, ''))
    ORDER BY n.place;
END
