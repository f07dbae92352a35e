-- retry_check: locks a dead job's record and says why it cannot run again, if it cannot.
-- Takes: the job. Returns: the reason, or NULL.
-- Raises: TU005 if there is no such job; 1213 if it moves again and again
-- Transaction: joins the caller's
-- Writes: nothing
-- Locks: the row of the history
-- Rules: P3
CREATE PROCEDURE turno.retry_check(IN p_job BIGINT, OUT p_bad TEXT)
BEGIN
    DECLARE v_state, v_outcome, v_locked VARCHAR(9);
    DECLARE v_attempt BIGINT;
    DECLARE v_kept BOOLEAN;
    DECLARE v_tries INT DEFAULT 20;
    -- The look shows both tables in one snapshot: another retry is moving the job from one to the other.
    WHILE v_state IS NULL AND v_locked IS NULL DO
        SELECT j.state, f.outcome INTO v_state, v_outcome
        FROM (SELECT p_job AS id) p LEFT JOIN turno.job j FORCE INDEX (PRIMARY) ON j.id = p.id LEFT JOIN turno.finished_job f ON f.id = p.id;
        IF v_state IS NULL AND v_outcome IS NULL THEN
            CALL turno.raise_error(31005, CONCAT('there is no job ', COALESCE(p_job, 'NULL')));
        ELSEIF v_state IS NULL THEN
            SELECT f.outcome, f.attempt, f.payload IS NOT NULL INTO v_locked, v_attempt, v_kept
            FROM turno.finished_job f WHERE f.id = p_job FOR UPDATE;
        END IF;
        SET v_tries = v_tries - 1;
        IF v_tries = 0 AND v_state IS NULL AND v_locked IS NULL THEN
            SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'the job moves too fast for this snapshot';
        END IF;
    END WHILE;
    SET v_state = COALESCE(v_state, v_locked);
    SET p_bad = CASE WHEN v_state <> 'dead' THEN CONCAT('it is ', v_state) WHEN NOT v_kept THEN 'its payload was not kept'
        WHEN v_attempt >= 1000000 THEN 'it had its last attempt' END;
END
