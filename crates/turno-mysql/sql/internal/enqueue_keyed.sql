-- enqueue_keyed: inserts the rows of a batch that have a key, one by one in the order of their unique keys. Of the rows with one
--                idempotency key, or one unique key, the first makes the job.
-- Takes: the batch, whether priorities are obeyed, now, whether the transaction is our own.
-- Returns: per row with a key a JSON array of its place, the job's id, and whether this call created it.
-- Raises: TU001 with the row's number; 3819 (MySQL) or 4025 (MariaDB), 1406, 1048
-- Transaction: joins the caller's
-- Writes: enqueue_key, unique_key, job
-- Locks: idempotency keys in key order, then unique keys in key order
-- Rules: E4, E5, E7, E11, E12
CREATE PROCEDURE turno.enqueue_keyed(
    IN p_jobs LONGTEXT, IN p_prioritized BOOLEAN, IN p_now BIGINT, IN p_own BOOLEAN, OUT p_answers LONGTEXT)
BEGIN
    DECLARE v_keys BIGINT;
    DECLARE v_done, v_created BOOLEAN DEFAULT FALSE;
    DECLARE v_place, v_run_at, v_priority, v_max_attempts, v_max_run_ms, v_id BIGINT;
    DECLARE v_queue, v_kind VARCHAR(255);
    DECLARE v_unique_key, v_idempotency_key VARCHAR(1024);
    DECLARE v_payload, v_traceparent LONGTEXT;
    DECLARE v_jobs CURSOR FOR
        SELECT r.place, r.queue, r.kind, r.run_at, IF(p_prioritized, r.priority, NULL), r.max_attempts, r.max_run_ms, r.unique_key,
               r.idempotency_key, r.payload, r.traceparent
        FROM JSON_TABLE(p_jobs, '$[*]' COLUMNS (
            place FOR ORDINALITY, queue VARCHAR(255) CHARACTER SET utf8mb4 PATH '$.queue',
            kind VARCHAR(255) CHARACTER SET utf8mb4 PATH '$.kind', run_at BIGINT PATH '$.run_at', priority BIGINT PATH '$.priority',
            max_attempts BIGINT PATH '$.max_attempts', max_run_ms BIGINT PATH '$.max_run_ms',
            unique_key VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$.unique_key',
            idempotency_key VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$.idempotency_key',
            payload LONGTEXT CHARACTER SET utf8mb4 PATH '$.payload',
            traceparent LONGTEXT CHARACTER SET utf8mb4 PATH '$.traceparent')) r
        WHERE r.unique_key IS NOT NULL OR r.idempotency_key IS NOT NULL
        ORDER BY r.idempotency_key IS NOT NULL AND ROW_NUMBER() OVER (
                     PARTITION BY CAST(r.queue AS BINARY), CAST(r.idempotency_key AS BINARY) ORDER BY r.place) > 1,
                 CAST(r.queue AS BINARY), CAST(r.unique_key AS BINARY), IF(r.unique_key IS NULL, CAST(r.idempotency_key AS BINARY), NULL), r.place;
    SELECT COUNT(*) INTO v_keys
    FROM JSON_TABLE(p_jobs, '$[*]' COLUMNS (unique_key VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$.unique_key')) r
    WHERE r.unique_key IS NOT NULL;
    IF v_keys > 0 THEN
        CALL turno.enqueue_keys(p_jobs);
    END IF;
    SET p_answers = '';
    OPEN v_jobs;
    WHILE NOT v_done DO
        BEGIN
            DECLARE EXIT HANDLER FOR NOT FOUND SET v_done = TRUE;
            FETCH v_jobs INTO v_place, v_queue, v_kind, v_run_at, v_priority, v_max_attempts, v_max_run_ms, v_unique_key,
                v_idempotency_key, v_payload, v_traceparent;
        END;
        IF NOT v_done THEN
            CALL turno.enqueue_row(v_place, v_queue, v_kind, v_payload, v_priority, v_run_at, v_max_attempts, v_max_run_ms, v_unique_key,
                v_idempotency_key, v_traceparent, p_now, p_own, v_id, v_created);
            SET p_answers = CONCAT(p_answers, IF(p_answers = '', '', ','), '[', v_place, ',', v_id, ',', v_created, ']');
        END IF;
    END WHILE;
    CLOSE v_jobs;
    SET p_answers = CONCAT('[', p_answers, ']');
END
