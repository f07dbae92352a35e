-- queue_row: gives a queue settings of its own, a copy of the installation's, if it has none.
-- Takes: the queue. Returns: nothing.
-- Raises: 3819 (MySQL) or 4025 (MariaDB) if the name is not one
-- Transaction: joins the caller's
-- Writes: queue
-- Locks: the queue's row
-- Rules: P6
CREATE PROCEDURE turno.queue_row(IN p_queue VARCHAR(255))
BEGIN
    DECLARE v_queue VARBINARY(200) DEFAULT p_queue;
    DECLARE v_there BIGINT;
    SELECT COUNT(*) INTO v_there FROM turno.queue q WHERE q.queue = v_queue;
    IF v_there = 0 THEN
        INSERT INTO turno.queue (queue, aging_ms, max_attempts, max_run_ms, retry_base_ms, retry_cap_ms, max_attempts_limit,
            max_run_limit_ms, run_at_horizon_ms, keep_succeeded_ms, keep_cancelled_ms, keep_dead_ms, receipts_ms)
        SELECT v_queue, d.aging_ms, d.max_attempts, d.max_run_ms, d.retry_base_ms, d.retry_cap_ms, d.max_attempts_limit,
            d.max_run_limit_ms, d.run_at_horizon_ms, d.keep_succeeded_ms, d.keep_cancelled_ms, d.keep_dead_ms, d.receipts_ms
        FROM turno.queue d WHERE d.queue = ''
        ON DUPLICATE KEY UPDATE queue = VALUES(queue);
    END IF;
END
