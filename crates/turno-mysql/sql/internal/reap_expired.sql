-- reap_expired: ends expired leases, whoever held them. Each row is locked while its lease is tested, so there is no moment
-- between the decision and the change.
-- Takes: the most rows to touch, the grace in ms after an outage (0: none).
-- Returns: the jobs as JSON arrays of job, attempt and state; how many are ready at once; how long the reaper holds back or NULL.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: job, attempt, unique_key, finished_job, reaper
-- Locks: job rows in order of their lease's end; skips those that somebody holds
-- Rules: R1, R2, R3, H2
CREATE PROCEDURE turno.reap_expired(
    IN p_limit BIGINT, IN p_grace_ms BIGINT, OUT p_jobs LONGTEXT, OUT p_ready BIGINT, OUT p_holding_for_ms BIGINT)
BEGIN
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE v_done BOOLEAN DEFAULT FALSE;
    DECLARE v_hold, v_job, v_attempt, v_lease_until, v_run_at, v_expired BIGINT;
    DECLARE v_worker VARBINARY(200);
    DECLARE v_state VARCHAR(9);
    DECLARE v_lost CURSOR FOR
        SELECT j.id, j.attempt, j.lease_until, j.worker FROM turno.job j FORCE INDEX (job_lease) WHERE j.lease_until < v_now
        ORDER BY j.lease_until, j.id LIMIT v_expired FOR UPDATE SKIP LOCKED;
    SET p_jobs = '', p_ready = 0;
    CALL turno.reaper_hold(p_grace_ms, v_now, v_hold);
    IF v_hold > v_now THEN
        SET p_holding_for_ms = CEIL((v_hold - v_now) / 1000), v_done = TRUE;
    END IF;
    -- Counted first, as in claim_take: the record behind the end is the lease of somebody alive.
    SELECT COUNT(*) INTO v_expired FROM (SELECT 1 AS one FROM turno.job j FORCE INDEX (job_lease) WHERE j.lease_until < v_now
                                           LIMIT p_limit) c;
    SET v_done = v_done OR v_expired = 0;
    OPEN v_lost;
    WHILE NOT v_done DO
        BEGIN
            DECLARE EXIT HANDLER FOR NOT FOUND SET v_done = TRUE;
            FETCH v_lost INTO v_job, v_attempt, v_lease_until, v_worker;
        END;
        IF NOT v_done THEN
            CALL turno.end_attempt(v_job, 'expire', CONCAT('the lease expired at ',
                LEFT(DATE_FORMAT(TIMESTAMPADD(MICROSECOND, v_lease_until, '1970-01-01'), '%Y-%m-%dT%H:%i:%s.%f'), 23),
                'Z: worker ', CONVERT(v_worker USING utf8mb4), ' was lost'), NULL, NULL, NULL, v_now, v_state, v_run_at);
            SET p_jobs = CONCAT(p_jobs, IF(p_jobs = '', '', ','), '[', v_job, ',', v_attempt, ',"', v_state, '"]');
            SET p_ready = p_ready + (v_state = 'ready');
        END IF;
    END WHILE;
    CLOSE v_lost;
    SET p_jobs = CONCAT('[', p_jobs, ']');
END
