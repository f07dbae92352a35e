-- job: everything known about one job, wherever it is in its life.
-- Takes: the job.
-- Returns: one row, or none.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: O6, V2
CREATE PROCEDURE turno.job(IN p_job BIGINT)
BEGIN
    CALL turno.job_records(JSON_ARRAY(p_job), NULL);
END
