-- enqueue_keys: takes the idempotency keys of a batch, before any of its unique keys. One that is there waits for the transaction that
-- took it; a new one stands for job 0 until its row is inserted.
-- Takes: the batch. Returns: nothing.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: enqueue_key
-- Locks: idempotency keys in key order
-- Rules: E4, E7
CREATE PROCEDURE turno.enqueue_keys(IN p_jobs LONGTEXT)
BEGIN
    DECLARE v_done BOOLEAN DEFAULT FALSE;
    DECLARE v_queue VARBINARY(255);
    DECLARE v_key VARBINARY(4096);
    DECLARE v_keys CURSOR FOR
        SELECT DISTINCT CAST(r.queue AS BINARY) AS queue, CAST(r.idempotency_key AS BINARY) AS once
        FROM JSON_TABLE(p_jobs, '$[*]' COLUMNS (
            queue VARCHAR(255) CHARACTER SET utf8mb4 PATH '$.queue',
            idempotency_key VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$.idempotency_key')) r
        WHERE r.idempotency_key IS NOT NULL ORDER BY queue, once;
    OPEN v_keys;
    WHILE NOT v_done DO
        BEGIN
            DECLARE EXIT HANDLER FOR NOT FOUND SET v_done = TRUE;
            FETCH v_keys INTO v_queue, v_key;
        END;
        IF NOT v_done THEN
            INSERT INTO turno.enqueue_key (queue, `key`, job_id) VALUES (v_queue, v_key, 0) ON DUPLICATE KEY UPDATE job_id = job_id;
        END IF;
    END WHILE;
    CLOSE v_keys;
END
