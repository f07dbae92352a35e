-- attempts: the ended attempts of one job, in order, the last one from its history.
-- Takes: the job.
-- Returns: attempt, worker, when it was claimed, started and ended, the verb that ended it, whether it was charged, its error and
--          the error's length before it was cut.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: F7
CREATE PROCEDURE turno.attempts(IN p_job BIGINT)
BEGIN
    SELECT a.attempt, CONVERT(a.worker USING utf8mb4) AS worker, a.claimed_at, a.started_at, a.ended_at, a.verb, a.charged, a.error,
           a.error_bytes
    FROM turno.attempt a WHERE a.job_id = p_job
    UNION ALL
    SELECT f.attempt, CONVERT(f.worker USING utf8mb4), f.claimed_at, f.started_at, f.finished_at, f.verb, f.charged, f.error,
           f.error_bytes
    FROM turno.finished_job f WHERE f.id = p_job AND f.verb IS NOT NULL
    ORDER BY 1;
END
