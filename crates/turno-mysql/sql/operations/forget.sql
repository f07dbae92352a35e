-- forget: removes the record of one ended job with its attempts and keys, whatever its retention.
-- Takes: the job.
-- Returns: nothing.
-- Raises: TU005 if there is no such job; TU006 if it has not ended
-- Transaction: joins the caller's, or owns its own
-- Writes: finished_job, attempt, enqueue_key
-- Locks: the rows of the job
-- Rules: P7
CREATE PROCEDURE turno.forget(IN p_job BIGINT)
BEGIN
    DECLARE v_own, v_unfinished, v_ended BOOLEAN;
    DECLARE v_n BIGINT;
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
    SELECT j.id IS NOT NULL, f.id IS NOT NULL INTO v_unfinished, v_ended
    FROM (SELECT p_job AS id) p LEFT JOIN turno.job j ON j.id = p.id LEFT JOIN turno.finished_job f ON f.id = p.id;
    IF v_unfinished THEN
        CALL turno.raise_error(31006, CONCAT('job ', p_job, ' has not ended'));
    END IF;
    IF NOT v_ended THEN
        CALL turno.raise_error(31005, CONCAT('there is no job ', COALESCE(p_job, 'NULL')));
    END IF;
    -- Locked, and looked at once more: a retry may have brought it back meanwhile.
    SELECT COUNT(*) INTO v_n FROM turno.finished_job f WHERE f.id = p_job FOR UPDATE;
    IF v_n = 0 THEN
        CALL turno.raise_error(31006, CONCAT('job ', p_job, ' has not ended'));
    END IF;
    CALL turno.forget_rows(JSON_ARRAY(p_job));
    CALL turno.end_work(v_own);
END
