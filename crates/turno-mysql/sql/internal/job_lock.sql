-- job_lock: locks an unfinished job, or says how it ended. One look shows both tables in one snapshot, so a job that is moving from
-- one to the other is found; it takes no lock, since that on an absent row would stop every enqueue under REPEATABLE READ.
-- Takes: the job. Returns: its state if it is unfinished and locked now; else its outcome.
-- Raises: TU005 if there is no record of it; 1213 if it moves again and again
-- Transaction: joins the caller's
-- Writes: nothing
-- Locks: the job's row
-- Rules: P1, P4
CREATE PROCEDURE turno.job_lock(IN p_job BIGINT, OUT p_state VARCHAR(9), OUT p_outcome VARCHAR(9))
BEGIN
    DECLARE v_there BOOLEAN;
    DECLARE v_tries INT DEFAULT 20;
    WHILE p_state IS NULL AND p_outcome IS NULL DO
        SELECT j.id IS NOT NULL, f.outcome INTO v_there, p_outcome
        FROM (SELECT p_job AS id) p LEFT JOIN turno.job j FORCE INDEX (PRIMARY) ON j.id = p.id LEFT JOIN turno.finished_job f ON f.id = p.id;
        IF v_there THEN
            SET p_outcome = NULL;
            SELECT j.state INTO p_state FROM turno.job j WHERE j.id = p_job FOR UPDATE;
        ELSEIF p_outcome IS NULL THEN
            CALL turno.raise_error(31005, CONCAT('there is no job ', COALESCE(p_job, 'NULL')));
        END IF;
        SET v_tries = v_tries - 1;
        IF v_tries = 0 AND p_state IS NULL AND p_outcome IS NULL THEN
            SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'the job moves too fast for this snapshot';
        END IF;
    END WHILE;
END
