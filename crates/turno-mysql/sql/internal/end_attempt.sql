-- end_attempt: the one place that decides what becomes of a job whose attempt ended without success.
-- Takes: the job, whose row the caller has locked; the verb (NULL: a waiting job is cancelled); the error; the retry delay in ms
--        (NULL: by policy, or for release the old due time; -1: never); the proof's token hash (NULL: no proof was shown); now.
-- Returns: the job's state and due time afterwards.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: job, then unique_key and finished_job, or attempt
-- Locks: the job's row, already held
-- Rules: S1, S2, F1, F2, F3, F5, F7, R2, P1, P2
CREATE PROCEDURE turno.end_attempt(
    IN p_job BIGINT, IN p_verb VARCHAR(8), IN p_error LONGTEXT, IN p_error_bytes BIGINT, IN p_delay_ms BIGINT,
    IN p_token_hash BINARY(32), IN p_now BIGINT, OUT p_state VARCHAR(9), OUT p_run_at BIGINT)
BEGIN
    DECLARE v_queue VARBINARY(200);
    DECLARE v_attempt, v_started_at, v_cancel_at, v_failures, v_max_attempts, v_expiries, v_aging, v_base, v_cap BIGINT;
    DECLARE v_unstarted, v_charged BOOLEAN;
    SELECT j.queue, j.attempt, j.started_at, j.cancel_requested_at, j.failures, j.max_attempts, j.unstarted_expiries, j.run_at
    INTO v_queue, v_attempt, v_started_at, v_cancel_at, v_failures, v_max_attempts, v_expiries, p_run_at
    FROM turno.job j WHERE j.id = p_job FOR UPDATE;
    SET v_unstarted = COALESCE(p_verb, '') = 'expire' AND v_started_at IS NULL AND v_expiries < 3;
    SET v_charged = COALESCE(p_verb, '') IN ('fail', 'expire') AND NOT v_unstarted;
    SET v_failures = v_failures + v_charged;
    SET p_state = CASE
        WHEN p_verb IS NULL OR p_verb = 'revoke' OR v_cancel_at IS NOT NULL THEN 'cancelled'
        WHEN v_charged AND (p_delay_ms = -1 OR v_failures >= v_max_attempts) OR v_attempt >= 1000000 THEN 'dead' END;
    IF p_state IS NOT NULL THEN
        CALL turno.finish(p_job, p_state, p_verb, NULL, p_error, p_error_bytes, v_charged, p_token_hash, p_now);
        SET p_run_at = NULL;
    ELSE
        SELECT q.aging_ms, q.retry_base_ms, q.retry_cap_ms INTO v_aging, v_base, v_cap
        FROM turno.queue q WHERE q.queue IN (v_queue, '') ORDER BY q.queue DESC LIMIT 1;
        -- 2^45 ms is beyond every cap, and doubling stops there, long before a double overflows.
        SET p_run_at = CASE
            WHEN p_delay_ms IS NOT NULL THEN p_now + p_delay_ms * 1000
            WHEN v_charged THEN p_now + CEIL(GREATEST(1, LEAST(v_cap, v_base * POW(2, LEAST(v_failures - 1, 45)))
                                                         * (1 - RAND() / 4)) * 1000)
            ELSE p_run_at END;
        SET p_state = IF(p_run_at <= p_now, 'ready', 'scheduled');
        CALL turno.cut_error(p_error, p_error_bytes);
        INSERT INTO turno.attempt (job_id, attempt, queue, verb, token_hash, worker, claimed_at, started_at, ended_at, charged,
            error, error_bytes, state, run_at)
        SELECT j.id, j.attempt, j.queue, p_verb, p_token_hash, j.worker, j.claimed_at, j.started_at, p_now, v_charged,
            p_error, p_error_bytes, p_state, p_run_at
        FROM turno.job j WHERE j.id = p_job;
        UPDATE turno.job j
        SET j.state = p_state, j.run_at = p_run_at, j.failures = v_failures,
            j.rank = IF(p_state = 'ready', p_run_at + j.priority * COALESCE(v_aging * 1000, 4503599627370496), NULL),
            j.unstarted_expiries = j.unstarted_expiries + v_unstarted, j.token = NULL, j.worker = NULL, j.claimed_at = NULL,
            j.started_at = NULL, j.lease_until = NULL, j.run_until = NULL
        WHERE j.id = p_job;
        -- The first and the last hundred attempts are kept.
        IF v_attempt > 200 THEN
            DELETE FROM turno.attempt WHERE job_id = p_job AND attempt = v_attempt - 100;
        END IF;
    END IF;
END
