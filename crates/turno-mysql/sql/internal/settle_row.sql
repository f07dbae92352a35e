-- settle_row: ends one attempt, or answers why not.
-- Takes: the verb; the proof; its result or error and the length of that before it was cut; the delay in ms; who sends it; now.
-- Returns: status done, already, refused or gone; the job's state; when it is due again; the reason of a refusal.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: job, attempt, unique_key, finished_job, refused; enqueue_key if nothing is kept
-- Locks: the job's row
-- Rules: S1, S2, S3, S4, S6, O2, O5
CREATE PROCEDURE turno.settle_row(
    IN p_verb VARCHAR(8), IN p_job BIGINT, IN p_attempt BIGINT, IN p_token CHAR(36), IN p_detail LONGTEXT, IN p_bytes BIGINT,
    IN p_delay_ms BIGINT, IN p_worker VARCHAR(255), IN p_now BIGINT, OUT p_status VARCHAR(8), OUT p_state VARCHAR(9),
    OUT p_run_at BIGINT, OUT p_reason TEXT)
BEGIN
    DECLARE v_token BINARY(16) DEFAULT UNHEX(REPLACE(p_token, '-', ''));
    DECLARE v_hash BINARY(32) DEFAULT UNHEX(SHA2(v_token, 256));
    DECLARE v_found BOOLEAN;
    CALL turno.settle_lock(p_job, p_attempt, v_token, v_found);
    IF NOT v_found THEN
        CALL turno.settle_miss(p_job, p_attempt, v_token, p_verb, p_detail, p_worker, p_status, p_state, p_run_at, p_reason);
    ELSEIF p_verb = 'complete' THEN
        CALL turno.finish(p_job, 'succeeded', 'complete', p_detail, NULL, NULL, FALSE, v_hash, p_now);
        SET p_status = 'done', p_state = 'succeeded';
    ELSE
        CALL turno.end_attempt(p_job, p_verb, IF(p_verb = 'fail', COALESCE(p_detail, ''), NULL), p_bytes, p_delay_ms, v_hash, p_now,
            p_state, p_run_at);
        SET p_status = 'done';
    END IF;
END
