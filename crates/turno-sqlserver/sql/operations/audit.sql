-- audit: proves that no row is out of reach of every rule. Not cheap: it reads the hot table whole.
-- Takes: nothing.
-- Returns: one row for each violated invariant: its name, how many rows, one of them, what it means.
-- Raises: TU002
-- Transaction: any but one at SNAPSHOT
-- Writes: nothing
-- Locks: none that lasts; without READ_COMMITTED_SNAPSHOT it waits for rows that somebody is changing
-- Rules: V3
CREATE OR ALTER PROCEDURE turno.audit
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    IF @@TRANCOUNT > 0
        EXEC turno.join_check N'audit', 0;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    DECLARE @now datetime2(6) = SYSUTCDATETIME();
    SELECT c.check_name, COUNT_BIG(*) AS row_count, MIN(c.id) AS example, c.meaning
    FROM (
        SELECT j.id, N'ended_twice' AS check_name, N'the job is unfinished and finished at once' AS meaning
        FROM turno.unfinished_job j JOIN turno.finished_job f ON f.id = j.id
        UNION ALL
        SELECT j.id, N'rank_wrong', N'a ready job is not where its priority and due time put it: claims order it wrongly (run rerank)'
        FROM turno.unfinished_job j CROSS APPLY turno.queue_settings(j.queue) q
        WHERE j.state = 'ready' AND j.rank <> DATEDIFF_BIG(microsecond, '1970-01-01', j.run_at) + j.priority * q.step
        UNION ALL
        SELECT j.id, N'due_ahead', N'a ready job is due in the future: it would run too early'
        FROM turno.unfinished_job j WHERE j.state = 'ready' AND j.run_at > DATEADD(second, 1, @now)
        UNION ALL
        SELECT j.id, N'running_half', N'a running job lacks token, lease or worker: nobody can settle or reap it'
        FROM turno.unfinished_job j
        WHERE j.state = 'running' AND (j.token IS NULL OR j.lease_until IS NULL OR j.worker IS NULL OR j.run_until IS NULL)
        UNION ALL
        SELECT j.id, N'lease_too_long', N'a lease outlives its attempt''s time: the reaper cannot end it'
        FROM turno.unfinished_job j WHERE j.state = 'running' AND j.lease_until > j.run_until
        UNION ALL
        SELECT j.id, N'budget_spent', N'an unfinished job has no failure left: it should be dead'
        FROM turno.unfinished_job j WHERE j.failures >= j.max_attempts
        UNION ALL
        SELECT a.job_id, N'attempt_ahead', N'a recorded attempt is later than the job''s own count'
        FROM turno.attempt a JOIN turno.unfinished_job j ON j.id = a.job_id WHERE a.attempt > j.attempt
        UNION ALL
        SELECT a.job_id, N'attempt_orphan', N'attempts of a job that is gone'
        FROM turno.attempt a
        WHERE NOT EXISTS (SELECT 1 FROM turno.unfinished_job j WHERE j.id = a.job_id)
          AND NOT EXISTS (SELECT 1 FROM turno.finished_job f WHERE f.id = a.job_id)
        UNION ALL
        SELECT k.job_id, N'key_orphan', N'an idempotency key stands for a job that is gone: its enqueue would create nothing'
        FROM turno.enqueue_key k
        WHERE NOT EXISTS (SELECT 1 FROM turno.unfinished_job j WHERE j.id = k.job_id)
          AND NOT EXISTS (SELECT 1 FROM turno.finished_job f WHERE f.id = k.job_id)
    ) c
    GROUP BY c.check_name, c.meaning ORDER BY c.check_name;
END;
