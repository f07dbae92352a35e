-- fail_many: ends attempts as failed: a retry after a delay, or dead, or cancelled if that was asked for.
-- Takes: proofs as a JSON array of at most 1000 objects with job, attempt and token, error, retry_ms (missing: by policy, -1: never again),
--        error_bytes (the error's length before a client cut it); who sends them.
-- Returns: per proof its place: status done, already, refused or gone; the job's state; when it is due again; the reason of a
--          refusal.
-- Raises: TU001
-- Transaction: joins the caller's, or owns its own
-- Writes: job, attempt, unique_key, finished_job, refused
-- Locks: job rows in the order of the request (send them in id order)
-- Rules: S1, S3, S4, S6, S7, F1, F3, F4, F5, F6, F7
CREATE PROCEDURE turno.fail_many(IN p_settles LONGTEXT, IN p_worker VARCHAR(255))
BEGIN
    DECLARE v_own BOOLEAN;
    DECLARE v_answers LONGTEXT;
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
    CALL turno.settle_check(p_settles, TRUE);
    CALL turno.begin_work(v_own);
    CALL turno.settle_rows('fail', p_settles, p_worker, v_answers);
    CALL turno.end_work(v_own);
    CALL turno.settle_answers(v_answers);
END
