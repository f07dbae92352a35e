-- enqueue_check: refuses what the queue's settings or the contract's limits do not allow, before anything is written, and says
-- what the job will be.
-- Takes: the row's place in its call; its queue, payload, due time, priority, budget and time per attempt, with NULL for the
--        queue's defaults; now.
-- Returns: the due time, budget, time per attempt, state and rank of the new job.
-- Raises: TU001 with the row's number
-- Transaction: joins the caller's
-- Writes: nothing
-- Locks: none
-- Rules: T2, T3, E9, E11
CREATE PROCEDURE turno.enqueue_check(
    IN p_place BIGINT, IN p_queue VARBINARY(255), IN p_has_payload BOOLEAN, INOUT p_run_at BIGINT, IN p_priority BIGINT,
    INOUT p_max_attempts BIGINT, INOUT p_max_run_ms BIGINT, IN p_now BIGINT, OUT p_state VARCHAR(9), OUT p_rank BIGINT)
BEGIN
    DECLARE v_step, v_attempts, v_attempts_limit, v_run, v_run_limit, v_horizon BIGINT;
    DECLARE v_bad VARCHAR(255);
    SELECT COALESCE(q.aging_ms * 1000, 4503599627370496), q.max_attempts, q.max_attempts_limit, q.max_run_ms, q.max_run_limit_ms,
           q.run_at_horizon_ms
    INTO v_step, v_attempts, v_attempts_limit, v_run, v_run_limit, v_horizon
    FROM turno.queue q WHERE q.queue IN (p_queue, '') ORDER BY q.queue DESC LIMIT 1;
    SET v_bad = CASE
        WHEN p_queue IS NULL THEN 'queue is NULL'
        WHEN NOT p_has_payload THEN 'payload is NULL'
        WHEN p_run_at > 253402300799999000 THEN 'run_at is after the year 9999'
        WHEN p_run_at > p_now + v_horizon * 1000 THEN CONCAT('run_at is beyond the horizon of the queue, ', v_horizon, ' ms')
        WHEN p_max_attempts NOT BETWEEN 1 AND v_attempts_limit
            THEN CONCAT('max_attempts ', p_max_attempts, ' is not in 1..', v_attempts_limit)
        WHEN p_max_run_ms NOT BETWEEN 1 AND v_run_limit THEN CONCAT('max_run_ms ', p_max_run_ms, ' is not in 1..', v_run_limit)
        WHEN p_priority NOT BETWEEN -1000 AND 1000 THEN CONCAT('priority ', p_priority, ' is not in -1000..1000') END;
    IF v_bad IS NOT NULL THEN
        CALL turno.raise_error(31001, CONCAT('row ', p_place, ': ', v_bad));
    END IF;
    SET p_run_at = GREATEST(p_now, COALESCE((GREATEST(p_run_at, 0) + 999) DIV 1000 * 1000, 0));
    SET p_max_attempts = COALESCE(p_max_attempts, v_attempts), p_max_run_ms = COALESCE(p_max_run_ms, v_run);
    SET p_state = IF(p_run_at <= p_now, 'ready', 'scheduled');
    SET p_rank = IF(p_state = 'ready', p_run_at + COALESCE(p_priority, 0) * v_step, NULL);
END
