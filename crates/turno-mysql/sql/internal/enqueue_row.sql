-- enqueue_row: inserts one job, unless one of its keys stands for another.
-- Takes: the row's place in its call, its columns, now; whether the transaction is our own.
-- Returns: the job's id, and whether this call created it.
-- Raises: TU001 beyond a limit; 3819 (MySQL) or 4025 (MariaDB) with the constraint's name, 1406 beyond a limit of a column
-- Transaction: joins the caller's
-- Writes: enqueue_key, unique_key, job
-- Locks: the idempotency key, then the unique key
-- Rules: E1, E3, E4, E5, E11, E12
CREATE PROCEDURE turno.enqueue_row(
    IN p_place BIGINT, IN p_queue VARCHAR(255), IN p_kind VARCHAR(255), IN p_payload LONGTEXT, IN p_priority BIGINT, IN p_run_at BIGINT,
    IN p_max_attempts BIGINT, IN p_max_run_ms BIGINT, IN p_unique_key VARCHAR(1024), IN p_idempotency_key VARCHAR(1024),
    IN p_traceparent LONGTEXT, IN p_now BIGINT, IN p_own BOOLEAN, OUT p_id BIGINT, OUT p_created BOOLEAN)
BEGIN
    DECLARE v_queue VARBINARY(255) DEFAULT p_queue;
    DECLARE v_key VARBINARY(4096) DEFAULT p_idempotency_key;
    DECLARE v_operation BINARY(16);
    DECLARE v_state VARCHAR(9);
    DECLARE v_rank, v_there BIGINT;
    DECLARE v_traceparent VARCHAR(55) DEFAULT IF(LENGTH(p_traceparent) = 55 AND p_traceparent COLLATE utf8mb4_bin REGEXP
        '^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$', p_traceparent, NULL);
    CALL turno.enqueue_check(p_place, v_queue, p_payload IS NOT NULL, p_run_at, p_priority, p_max_attempts, p_max_run_ms, p_now,
        v_state, v_rank);
    SET p_id = 0, p_created = FALSE;
    IF v_key IS NOT NULL THEN
        -- A key that is there waits for the transaction that took it; 0 says that it is ours.
        INSERT INTO turno.enqueue_key (queue, `key`, job_id) VALUES (v_queue, v_key, 0)
        ON DUPLICATE KEY UPDATE job_id = job_id;
        SELECT k.job_id INTO p_id FROM turno.enqueue_key k WHERE k.queue = v_queue AND k.key = v_key FOR UPDATE;
        -- A job that a unique key found may have been removed before its new idempotency key was committed. Such a key stands for
        -- nothing. A caller's snapshot may be too old to tell.
        SELECT COUNT(*) INTO v_there
        FROM (SELECT j.id FROM turno.job j WHERE j.id = p_id UNION ALL SELECT f.id FROM turno.finished_job f WHERE f.id = p_id) t;
        SET p_id = IF(p_own AND v_there = 0, 0, p_id);
    END IF;
    IF p_id = 0 THEN
        CALL turno.random_id(v_operation);
        IF p_unique_key IS NULL THEN
            INSERT INTO turno.job (queue, kind, payload, priority, state, `rank`, run_at, first_due_at, created_at, max_attempts,
                max_run_ms, operation_id, traceparent)
            VALUES (v_queue, p_kind, p_payload, COALESCE(p_priority, 0), v_state, v_rank, p_run_at, p_run_at, p_now,
                p_max_attempts, p_max_run_ms, v_operation, v_traceparent);
            SET p_id = LAST_INSERT_ID(), p_created = TRUE;
        ELSE
            CALL turno.enqueue_unique(v_queue, p_kind, p_payload, COALESCE(p_priority, 0), v_state, v_rank, p_run_at, p_max_attempts,
                p_max_run_ms, p_unique_key, v_operation, v_traceparent, p_now, p_own, p_id, p_created);
        END IF;
        IF v_key IS NOT NULL THEN
            UPDATE turno.enqueue_key k SET k.job_id = p_id WHERE k.queue = v_queue AND k.key = v_key;
        END IF;
    END IF;
END
