-- settle_lock: locks the job that is running under this proof, if there is one.
-- Takes: the proof. Returns: whether there is.
-- Raises: 1213 if the caller's snapshot is older than the end of this attempt, and so cannot tell a repeat from a theft
-- Transaction: joins the caller's
-- Writes: nothing
-- Locks: the job's row
-- Rules: O2, O5, S4, X3
-- DIFFERS: looking for an absent row with a lock stops every enqueue under REPEATABLE READ, so it looks without one first. What it
--          sees then may be as old as the caller's snapshot, but attempts only grow: a later one, or the same one without the
--          token, is lost for good. Only a job that the snapshot does not know at all, or knows before this attempt, is locked.
CREATE PROCEDURE turno.settle_lock(IN p_job BIGINT, IN p_attempt BIGINT, IN p_token BINARY(16), OUT p_found BOOLEAN)
BEGIN
    DECLARE v_attempt, v_old BIGINT;
    DECLARE v_token BINARY(16);
    SET p_found = FALSE;
    SELECT j.attempt, j.token INTO v_attempt, v_token FROM turno.job j WHERE j.id = p_job;
    IF v_attempt IS NULL THEN
        SELECT f.attempt INTO v_attempt FROM turno.finished_job f WHERE f.id = p_job;
    END IF;
    IF v_attempt IS NULL OR v_attempt < p_attempt OR v_attempt = p_attempt AND v_token = p_token THEN
        SET v_attempt = NULL;
        SELECT j.attempt, j.token INTO v_attempt, v_token FROM turno.job j WHERE j.id = p_job FOR UPDATE;
        SET p_found = COALESCE(v_attempt = p_attempt AND v_token = p_token, FALSE);
        IF NOT p_found THEN
            SELECT COUNT(*) INTO v_old FROM turno.job j
            WHERE j.id = p_job AND (v_attempt IS NULL OR j.attempt < v_attempt OR j.attempt = p_attempt AND j.token = p_token);
            IF v_old > 0 THEN
                SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213,
                    MESSAGE_TEXT = 'the snapshot of this transaction is older than the end of the attempt';
            END IF;
        END IF;
    END IF;
END
