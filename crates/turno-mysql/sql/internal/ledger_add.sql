-- ledger_add: writes one refused result. The same result again counts up; beyond 100 rows for a job the newest row counts.
-- Takes: what was refused, why, and who held the job or how it ended.
-- Returns: nothing.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: refused
-- Locks: one row of the ledger
-- Rules: S7
CREATE PROCEDURE turno.ledger_add(
    IN p_job BIGINT, IN p_attempt BIGINT, IN p_verb VARCHAR(8), IN p_detail LONGTEXT, IN p_worker VARCHAR(255),
    IN p_reason TEXT, IN p_queue VARBINARY(200), IN p_state VARCHAR(9), IN p_owner VARBINARY(200), IN p_owner_attempt BIGINT)
BEGIN
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE v_count, v_known, v_newest, v_bytes BIGINT;
    SELECT COUNT(*), COUNT(IF(r.attempt = p_attempt AND r.verb = p_verb, 1, NULL)), MAX(r.id) INTO v_count, v_known, v_newest
    FROM turno.refused r WHERE r.job_id = p_job;
    IF v_count >= 100 AND v_known = 0 THEN
        UPDATE turno.refused r SET r.times = r.times + 1, r.last_at = v_now WHERE r.id = v_newest;
    ELSE
        CALL turno.cut_error(p_detail, v_bytes);
        INSERT INTO turno.refused (job_id, queue, attempt, verb, worker, reason, detail, owner, owner_attempt, state, first_at,
            last_at)
        VALUES (p_job, p_queue, p_attempt, p_verb, p_worker, p_reason, p_detail, p_owner, p_owner_attempt, p_state, v_now, v_now)
        ON DUPLICATE KEY UPDATE times = times + 1, last_at = v_now;
    END IF;
END
