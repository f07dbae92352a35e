-- refused_record: writes to the ledger a refusal that happened inside a transaction which therefore rolled back.
-- Takes: the proof, the verb, the result or error that came with it, who sent it.
-- Returns: whether it is refused indeed: nothing is written if the proof is the current one, or the settle was accepted.
-- Raises: TU001
-- Transaction: joins the caller's, or owns its own; call it on another connection, or after the rollback
-- Writes: refused
-- Locks: one row of the ledger
-- Rules: S5, S7
CREATE PROCEDURE turno.refused_record(
    IN p_job BIGINT, IN p_attempt BIGINT, IN p_token CHAR(36), IN p_verb VARCHAR(8), IN p_detail LONGTEXT, IN p_worker VARCHAR(255))
BEGIN
    DECLARE v_token BINARY(16) DEFAULT UNHEX(REPLACE(p_token, '-', ''));
    DECLARE v_own BOOLEAN;
    DECLARE v_status VARCHAR(8) DEFAULT 'already';
    DECLARE v_state VARCHAR(9);
    DECLARE v_run_at, v_current BIGINT;
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
    IF COALESCE(p_verb, '') NOT IN ('complete', 'fail', 'release') OR p_job IS NULL OR p_attempt IS NULL OR v_token IS NULL THEN
        CALL turno.raise_error(31001, 'a settle is complete, fail or release, with a proof');
    END IF;
    CALL turno.begin_work(v_own);
    SELECT COUNT(*) INTO v_current FROM turno.job j WHERE j.id = p_job AND j.attempt = p_attempt AND j.token = v_token;
    IF v_current = 0 THEN
        CALL turno.settle_miss(p_job, p_attempt, v_token, p_verb, p_detail, p_worker, v_status, v_state, v_run_at, v_reason);
    END IF;
    CALL turno.end_work(v_own);
    SELECT v_status <> 'already' AS refused;
END
