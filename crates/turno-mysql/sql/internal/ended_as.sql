-- ended_as: how a job that is not in the hot table ended.
-- Takes: the job. Returns: its outcome.
-- Raises: TU005 if there is no record of it
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: P1
CREATE PROCEDURE turno.ended_as(IN p_job BIGINT, OUT p_outcome VARCHAR(9))
BEGIN
    SET p_outcome = (SELECT f.outcome FROM turno.finished_job f WHERE f.id = p_job);
    IF p_outcome IS NULL THEN
        CALL turno.raise_error(31005, CONCAT('there is no job ', COALESCE(p_job, 'NULL')));
    END IF;
END
