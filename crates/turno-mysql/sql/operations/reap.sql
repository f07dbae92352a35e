-- reap: ends expired leases: back to waiting with back-off, dead, or cancelled if that was asked for. Anybody may run it at any time.
-- Takes: the most rows to touch; the grace in ms: if nobody has reaped for longer, it first waits one grace (0: it does not).
-- Returns: the jobs with their lost attempt and new state; or one row with a NULL job and how long the reaper holds back.
-- Raises: TU001, TU002
-- Transaction: owns its own, at READ COMMITTED
-- Writes: job, attempt, unique_key, finished_job, reaper
-- Locks: job rows in order of their lease's end; skips those that somebody holds
-- Rules: R1, R2, R3, H2, C10
CREATE PROCEDURE turno.reap(IN p_limit BIGINT, IN p_grace_ms BIGINT)
BEGIN
    DECLARE v_own BOOLEAN;
    DECLARE v_ready, v_hold BIGINT;
    DECLARE v_lost LONGTEXT;
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
    CALL turno.own_work('reap');
    SET v_own = TRUE;
    CALL turno.batch_check(p_limit);
    IF p_grace_ms NOT BETWEEN 0 AND 86400000 THEN
        CALL turno.raise_error(31001, 'a grace has 0..86400000 ms');
    END IF;
    CALL turno.reap_expired(p_limit, COALESCE(p_grace_ms, 0), v_lost, v_ready, v_hold);
    COMMIT AND NO CHAIN NO RELEASE;
    SELECT r.job_id, r.attempt, r.state, NULL AS holding_for_ms
    FROM JSON_TABLE(v_lost, '$[*]' COLUMNS (job_id BIGINT PATH '$[0]', attempt BIGINT PATH '$[1]', state VARCHAR(9) PATH '$[2]')) r
    UNION ALL
    SELECT NULL, NULL, NULL, v_hold FROM (SELECT 1 AS one) always WHERE v_hold IS NOT NULL;
END
