-- reprioritize: changes the priority of an unfinished job; its due time stays.
-- Takes: the job; the priority, -1000..1000.
-- Returns: nothing.
-- Raises: TU001; TU005 if there is no such job; TU006 if it has ended
-- Transaction: joins the caller's, or owns its own
-- Writes: job
-- Locks: the job's row
-- Rules: P4
CREATE PROCEDURE turno.reprioritize(IN p_job BIGINT, IN p_priority BIGINT)
BEGIN
    DECLARE v_own BOOLEAN;
    DECLARE v_queue VARBINARY(200);
    DECLARE v_step BIGINT;
    DECLARE v_state, v_ended VARCHAR(9);
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
    IF p_priority IS NULL OR p_priority NOT BETWEEN -1000 AND 1000 THEN
        CALL turno.raise_error(31001, CONCAT('priority ', COALESCE(p_priority, 'NULL'), ' is not in -1000..1000'));
    END IF;
    CALL turno.begin_work(v_own);
    CALL turno.job_lock(p_job, v_state, v_ended);
    IF v_state IS NULL THEN
        CALL turno.raise_error(31006, CONCAT('job ', p_job, ' has ended as ', v_ended));
    END IF;
    SELECT j.queue INTO v_queue FROM turno.job j WHERE j.id = p_job FOR UPDATE;
    SELECT COALESCE(q.aging_ms * 1000, 4503599627370496) INTO v_step FROM turno.queue q WHERE q.queue IN (v_queue, '')
                  ORDER BY q.queue DESC LIMIT 1;
    UPDATE turno.job j
    SET j.rank = IF(j.state = 'ready', j.run_at + p_priority * v_step, j.rank), j.priority = p_priority
    WHERE j.id = p_job;
    CALL turno.end_work(v_own);
END
