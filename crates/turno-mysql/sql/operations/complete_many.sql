-- complete_many: ends attempts as succeeded. A refusal is an answer, and commits with its row in the ledger.
-- Takes: proofs as a JSON array of at most 1000 objects with job, attempt and token, and result (a string that
--        holds JSON text) if there is one; who sends them.
-- Returns: per proof its place: status done, already, refused or gone; the job's state; when it is due again; the reason of a
--          refusal.
-- Raises: TU001
-- Transaction: joins the caller's, or owns its own
-- Writes: job, attempt, unique_key, finished_job, refused
-- Locks: job rows in the order of the request (send them in id order)
-- Rules: S1, S3, S4, S6, S7, O2, O5, P7, P8
-- DIFFERS: in a caller's transaction, where absent rows would lock gaps, it goes row by row.
CREATE PROCEDURE turno.complete_many(IN p_settles LONGTEXT, IN p_worker VARCHAR(255))
BEGIN
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE v_own, v_all BOOLEAN;
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
    CALL turno.settle_check(p_settles, FALSE);
    CALL turno.begin_work(v_own);
    IF v_own THEN
        CALL turno.complete_all(p_settles, v_now, v_all);
    END IF;
    IF v_all THEN
        CALL turno.end_work(v_own);
        SELECT r.place, r.job AS job_id, 'done' AS status, 'succeeded' AS state, NULL AS run_at, NULL AS reason
        FROM JSON_TABLE(p_settles, '$[*]' COLUMNS (place FOR ORDINALITY, job BIGINT PATH '$.job')) r;
    ELSE
        IF v_own THEN
            CALL turno.undo_work(v_own);
            CALL turno.begin_work(v_own);
        END IF;
        CALL turno.settle_rows('complete', p_settles, p_worker, v_answers);
        CALL turno.end_work(v_own);
        CALL turno.settle_answers(v_answers);
    END IF;
END
