-- cancel: ends a waiting job as cancelled; asks a running one to stop, or with force revokes it.
-- Takes: the job; whether to revoke a running one at once.
-- Returns: answer cancelled, requested or too_late; for the last, the state in which the job had ended.
-- Raises: TU005
-- Transaction: joins the caller's, or owns its own
-- Writes: job, unique_key, finished_job
-- Locks: the job's row
-- Rules: P1, P2
CREATE PROCEDURE turno.cancel(IN p_job BIGINT, IN p_force BOOLEAN)
BEGIN
    DECLARE v_now BIGINT;
    DECLARE v_own BOOLEAN;
    DECLARE v_state, v_ended, v_answer VARCHAR(9);
    DECLARE v_run_at BIGINT;
    DECLARE EXIT HANDLER FOR 1213
    BEGIN
        CALL turno.lost_work(v_own);
        RESIGNAL;
    END;
    DECLARE EXIT HANDLER FOR 1265
    BEGIN
        CALL turno.undo_work(v_own);
        RESIGNAL SQLSTATE '22001' SET MYSQL_ERRNO = 1406;
    END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        CALL turno.undo_work(v_own);
        RESIGNAL;
    END;
    CALL turno.begin_work(v_own);
    CALL turno.job_lock(p_job, v_state, v_ended);
    -- Only now: it may have waited for a claim, whose attempt must not end before it began.
    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    IF v_state IS NULL THEN
        SET v_answer = 'too_late';
    ELSEIF v_state = 'running' AND NOT COALESCE(p_force, FALSE) THEN
        SET v_answer = 'requested';
        UPDATE turno.job j SET j.cancel_requested_at = COALESCE(j.cancel_requested_at, v_now) WHERE j.id = p_job;
    ELSE
        SET v_answer = 'cancelled';
        CALL turno.end_attempt(p_job, IF(v_state = 'running', 'revoke', NULL), NULL, NULL, NULL, NULL, v_now, v_state, v_run_at);
    END IF;
    CALL turno.end_work(v_own);
    SELECT v_answer AS answer, v_ended AS state;
END
