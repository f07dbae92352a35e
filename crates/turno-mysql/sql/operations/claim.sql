-- claim: gives up to p_limit due jobs to a worker, each under a lease, best first.
-- Takes: queues in the order of service (a JSON array of names); the worker's label; the most jobs; the lease; a new token; how many
--        of the jobs start at once (NULL: all); per queue the rank where to begin, as a JSON array (NULL: the front).
-- Returns: the jobs that the token holds now. If there are none, one row whose id is NULL says in how many ms the next job of
--          these queues is due, and no row at all that nothing is scheduled.
-- Raises: TU001, TU002; 1205 if another claim with this token does not end
-- Transaction: owns its own, at READ COMMITTED whatever the session's default is
-- Writes: job, and what reap writes
-- Locks: a named lock of the token, then job rows in rank order; skips those that somebody holds
-- Rules: C1, C2, C3, C4, C5, C6, C7, C8, C10, F2, H3, P5
CREATE PROCEDURE turno.claim(
    IN p_queues LONGTEXT, IN p_worker VARCHAR(255), IN p_limit BIGINT, IN p_lease_ms BIGINT, IN p_token CHAR(36), IN p_start BIGINT,
    IN p_from_ranks LONGTEXT)
BEGIN
    DECLARE v_token BINARY(16) DEFAULT UNHEX(REPLACE(p_token, '-', ''));
    DECLARE v_lock VARCHAR(64) DEFAULT CONCAT('turno.', HEX(v_token));
    DECLARE v_own, v_alone BOOLEAN;
    DECLARE v_count, v_taken, v_again, v_ready, v_hold, v_held, v_next_due BIGINT DEFAULT 0;
    DECLARE v_lost LONGTEXT;
    DECLARE EXIT HANDLER FOR 1265
    BEGIN
        CALL turno.undo_work(v_own);
        IF v_alone THEN
            DO RELEASE_LOCK(v_lock);
        END IF;
        RESIGNAL SQLSTATE '22001' SET MYSQL_ERRNO = 1406;
    END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        CALL turno.undo_work(v_own);
        IF v_alone THEN
            DO RELEASE_LOCK(v_lock);
        END IF;
        RESIGNAL;
    END;
    CALL turno.own_work('claim');
    SET v_own = TRUE, v_next_due = NULL;
    CALL turno.claim_check(p_queues, p_worker, p_limit, p_lease_ms, v_token, p_from_ranks);
    -- Two claims with one token wait for each other, so that the second finds what the first took.
    SET v_alone = GET_LOCK(v_lock, 10);
    IF NOT COALESCE(v_alone, FALSE) THEN
        SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT = 'another claim with this token is still going on';
    END IF;
    SELECT COUNT(*) INTO v_held FROM turno.job j FORCE INDEX (job_token) WHERE j.token = v_token;
    IF v_held = 0 THEN
        CALL turno.promote_due(p_queues, 1000, v_count);
        CALL turno.claim_take(p_queues, p_worker, p_limit, p_lease_ms, v_token, p_start, p_from_ranks, v_taken);
        -- Expired leases are the sweep's.
        IF v_taken < p_limit AND COALESCE(p_from_ranks, '') NOT REGEXP '[0-9]' THEN
            CALL turno.reap_expired(1000, p_lease_ms DIV 3, v_lost, v_ready, v_hold);
        END IF;
        IF v_ready > 0 THEN
            CALL turno.claim_take(p_queues, p_worker, p_limit - v_taken, p_lease_ms, v_token, GREATEST(0, p_start - v_taken), NULL,
                v_again);
        END IF;
        IF v_taken + v_again < p_limit THEN
            CALL turno.next_due_in(p_queues, v_next_due);
        END IF;
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
    DO RELEASE_LOCK(v_lock);
    CALL turno.token_jobs(v_token, p_queues, v_next_due);
    -- A session without autocommit began another transaction by reading.
    COMMIT AND NO CHAIN NO RELEASE;
END
