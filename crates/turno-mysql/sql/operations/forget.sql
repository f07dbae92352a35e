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
    DECLARE v_own BOOLEAN;
    DECLARE EXIT HANDLER FOR 1213 RESIGNAL;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        CALL turno.undo_work(v_own);
        RESIGNAL;
    END;
    CALL turno.begin_work(v_own);
    IF EXISTS (SELECT 1 FROM turno.job j WHERE j.id = p_job) THEN
        CALL turno.raise_error(31006, CONCAT('job ', p_job, ' has not ended'));
    END IF;
    IF NOT EXISTS (SELECT 1 FROM turno.finished_job f WHERE f.id = p_job) THEN
        CALL turno.raise_error(31005, CONCAT('there is no job ', COALESCE(p_job, 'NULL')));
    END IF;
    CALL turno.forget_rows(JSON_ARRAY(p_job));
    CALL turno.end_work(v_own);
END
