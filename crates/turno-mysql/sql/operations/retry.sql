-- retry: runs a dead job again: failures 0, due now, with the same id and operation id; its attempt goes on.
-- Takes: the job.
-- Returns: nothing.
-- Raises: TU005 if there is no such job; TU006 if it is not dead, its payload was not kept, or its unique key is taken
-- Transaction: joins the caller's, or owns its own
-- Writes: job, attempt, unique_key, finished_job
-- Locks: the row of the history, then the unique key
-- Rules: P3, F7
CREATE PROCEDURE turno.retry(IN p_job BIGINT)
BEGIN
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE v_own BOOLEAN;
    DECLARE v_bad TEXT;
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
    CALL turno.retry_check(p_job, v_bad);
    IF v_bad IS NULL THEN
        CALL turno.retry_insert(p_job, v_now, v_bad);
    END IF;
    IF v_bad IS NOT NULL THEN
        CALL turno.raise_error(31006, CONCAT('job ', p_job, ' cannot be retried: ', v_bad));
    END IF;
    INSERT INTO turno.attempt (job_id, attempt, queue, verb, token_hash, worker, claimed_at, started_at, ended_at, charged, error,
        error_bytes, state, run_at)
    SELECT f.id, f.attempt, f.queue, f.verb, f.token_hash, f.worker, f.claimed_at, f.started_at, f.finished_at, f.charged, f.error,
        f.error_bytes, 'dead', v_now
    FROM turno.finished_job f WHERE f.id = p_job AND f.verb IS NOT NULL;
    DELETE a FROM turno.finished_job f STRAIGHT_JOIN turno.attempt a ON a.job_id = f.id AND a.attempt = f.attempt - 100
    WHERE f.id = p_job AND f.attempt > 200;
    DELETE FROM turno.finished_job WHERE id = p_job;
    CALL turno.end_work(v_own);
END
