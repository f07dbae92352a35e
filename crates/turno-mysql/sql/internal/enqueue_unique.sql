-- enqueue_unique: inserts a job that has a unique key. Inserting a taken key waits for the transaction that took it; if that
-- rolls back, the job is created here.
-- Takes: the columns of the new job; now; whether the transaction is our own.
-- Returns: the id of the job that has the key, and whether this call created it.
-- Raises: 1213 if the holder ends again and again just when it is looked for
-- Transaction: joins the caller's
-- Writes: unique_key, job
-- Locks: the unique key
-- Rules: E5, E12
-- DIFFERS: a failed insert keeps a shared lock on the key until the transaction ends, and the holder's completion would wait for
--          it. In a transaction of our own a look without a lock comes first; a caller's snapshot may be too old for that.
CREATE PROCEDURE turno.enqueue_unique(
    IN p_queue VARBINARY(255), IN p_kind VARCHAR(255), IN p_payload LONGTEXT, IN p_priority BIGINT, IN p_state VARCHAR(9),
    IN p_rank BIGINT, IN p_run_at BIGINT, IN p_max_attempts BIGINT, IN p_max_run_ms BIGINT, IN p_unique_key VARCHAR(1024),
    IN p_operation BINARY(16), IN p_traceparent VARCHAR(55), IN p_now BIGINT, IN p_own BOOLEAN, OUT p_id BIGINT, OUT p_created BOOLEAN)
BEGIN
    DECLARE v_key VARBINARY(4096) DEFAULT p_unique_key;
    DECLARE v_tries INT DEFAULT 20;
    IF p_own THEN
        SELECT MAX(k.job_id) INTO p_id FROM turno.unique_key k WHERE k.queue = p_queue AND k.key = v_key;
    END IF;
    SET p_created = FALSE;
    WHILE p_id IS NULL DO
        BEGIN
            DECLARE EXIT HANDLER FOR 1062
                SELECT k.job_id INTO p_id FROM turno.unique_key k WHERE k.queue = p_queue AND k.key = v_key
                LOCK IN SHARE MODE;
            INSERT INTO turno.unique_key (queue, `key`, job_id) VALUES (p_queue, v_key, 0);
            INSERT INTO turno.job (queue, kind, payload, priority, state, `rank`, run_at, first_due_at, created_at, max_attempts,
                max_run_ms, unique_key, operation_id, traceparent)
            VALUES (p_queue, p_kind, p_payload, p_priority, p_state, p_rank, p_run_at, p_run_at, p_now, p_max_attempts,
                p_max_run_ms, v_key, p_operation, p_traceparent);
            SET p_id = LAST_INSERT_ID(), p_created = TRUE;
            UPDATE turno.unique_key k SET k.job_id = p_id WHERE k.queue = p_queue AND k.key = v_key;
        END;
        SET v_tries = v_tries - 1;
        IF p_id IS NULL AND v_tries = 0 THEN
            SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'a unique key changes hands too fast';
        END IF;
    END WHILE;
END
