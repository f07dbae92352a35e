-- retry_check: locks a dead job's record and says why it cannot run again, if it cannot.
-- Takes: the job. Returns: the reason, or NULL.
-- Raises: TU005 if there is no such job
-- Transaction: joins the caller's
-- Writes: nothing
-- Locks: the row of the history
-- Rules: P3
CREATE PROCEDURE turno.retry_check(IN p_job BIGINT, OUT p_bad TEXT)
BEGIN
    DECLARE v_state VARCHAR(9) DEFAULT (SELECT j.state FROM turno.job j WHERE j.id = p_job);
    DECLARE v_attempt BIGINT;
    DECLARE v_kept BOOLEAN;
    IF v_state IS NULL THEN
        CALL turno.ended_as(p_job, v_state);
        SET v_state = NULL;
        SELECT f.outcome, f.attempt, f.payload IS NOT NULL INTO v_state, v_attempt, v_kept
        FROM turno.finished_job f WHERE f.id = p_job FOR UPDATE;
    END IF;
    -- Without a row now, another retry came first.
    SET p_bad = CASE WHEN v_state IS NULL THEN 'it was retried just now' WHEN v_state <> 'dead' THEN CONCAT('it is ', v_state)
        WHEN NOT v_kept THEN 'its payload was not kept' WHEN v_attempt >= 1000000 THEN 'it had its last attempt' END;
END
