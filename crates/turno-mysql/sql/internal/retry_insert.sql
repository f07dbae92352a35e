-- retry_insert: puts a dead job back into the hot table.
-- Takes: the job, whose record the caller has locked; now. Returns: the reason why it cannot be done, or NULL.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: unique_key, job
-- Locks: the unique key
-- Rules: P3
CREATE PROCEDURE turno.retry_insert(IN p_job BIGINT, IN p_now BIGINT, OUT p_bad TEXT)
BEGIN
    DECLARE v_queue VARBINARY(200);
    DECLARE v_key VARBINARY(512);
    DECLARE v_step, v_holder BIGINT;
    DECLARE EXIT HANDLER FOR 1062
    BEGIN
        SELECT k.job_id INTO v_holder FROM turno.unique_key k WHERE k.queue = v_queue AND k.key = v_key;
        SET p_bad = CONCAT('job ', COALESCE(v_holder, 'that has ended just now'), ' has its unique key');
    END;
    SELECT f.queue, f.unique_key INTO v_queue, v_key FROM turno.finished_job f WHERE f.id = p_job FOR UPDATE;
    SELECT COALESCE(q.aging_ms * 1000, 4503599627370496) INTO v_step FROM turno.queue q WHERE q.queue IN (v_queue, '')
                  ORDER BY q.queue DESC LIMIT 1;
    IF v_key IS NOT NULL THEN
        INSERT INTO turno.unique_key (queue, `key`, job_id) VALUES (v_queue, v_key, p_job);
    END IF;
    INSERT INTO turno.job (id, queue, kind, payload, priority, state, `rank`, run_at, first_due_at, created_at, attempt, max_attempts,
        max_run_ms, unique_key, operation_id, traceparent)
    SELECT f.id, f.queue, f.kind, f.payload, f.priority, 'ready', p_now + f.priority * v_step, p_now, p_now, f.created_at, f.attempt,
        f.max_attempts, f.max_run_ms, f.unique_key, f.operation_id, f.traceparent
    FROM turno.finished_job f WHERE f.id = p_job;
END
