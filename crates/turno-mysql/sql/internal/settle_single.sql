-- settle_single: settles one attempt in the caller's transaction, or in one of its own. A refusal raises and changes nothing.
-- Takes: what settle_row takes.
-- Returns: one row: status done or already; the job's state; when it is due again.
-- Raises: TU001, TU003, TU004, TU005
-- Transaction: joins the caller's, or owns its own
-- Writes: job, attempt, unique_key, finished_job; enqueue_key if nothing is kept
-- Locks: the job's row
-- Rules: S1, S4, S5
CREATE PROCEDURE turno.settle_single(
    IN p_verb VARCHAR(8), IN p_job BIGINT, IN p_attempt BIGINT, IN p_token CHAR(36), IN p_detail LONGTEXT, IN p_delay_ms BIGINT,
    IN p_worker VARCHAR(255))
BEGIN
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE v_own BOOLEAN;
    DECLARE v_status, v_state VARCHAR(9);
    DECLARE v_run_at BIGINT;
    DECLARE v_reason TEXT;
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
    IF p_delay_ms NOT BETWEEN IF(p_verb = 'fail', -1, 0) AND 31536000000 THEN
        CALL turno.raise_error(31001, 'a delay has 0..31536000000 ms, and -1 means no retry');
    END IF;
    CALL turno.begin_work(v_own);
    CALL turno.settle_row(p_verb, p_job, p_attempt, p_token, p_detail, NULL, p_delay_ms, p_worker, v_now, v_status, v_state, v_run_at,
        v_reason);
    CALL turno.raise_refusal(p_job, v_status, v_reason);
    CALL turno.end_work(v_own);
    SELECT v_status AS status, v_state AS state, v_run_at AS run_at;
END
