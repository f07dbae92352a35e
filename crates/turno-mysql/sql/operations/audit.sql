-- audit: proves that no row is out of reach of every rule. Not cheap: it reads the hot table whole.
-- Takes: nothing.
-- Returns: one row for each violated invariant: its name, how many rows, one of them, what it means.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V3
CREATE PROCEDURE turno.audit()
BEGIN
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    SELECT c.check_name, COUNT(*) AS row_count, MIN(c.id) AS example, c.meaning
    FROM (
        SELECT j.id, 'ended_twice' AS check_name, 'the job is unfinished and finished at once' AS meaning
        FROM turno.job j JOIN turno.finished_job f ON f.id = j.id
        UNION ALL
        SELECT j.id, 'rank_wrong', 'a ready job is not where its priority and due time put it: claims order it wrongly (run rerank)'
        FROM turno.job j JOIN turno.queue q ON q.queue = (SELECT MAX(s.queue) FROM turno.queue s WHERE s.queue IN (j.queue, ''))
        WHERE j.state = 'ready' AND j.rank <> j.run_at + j.priority * COALESCE(q.aging_ms * 1000, 4503599627370496)
        UNION ALL
        SELECT j.id, 'due_ahead', 'a ready job is due in the future: it would run too early'
        FROM turno.job j WHERE j.state = 'ready' AND j.run_at > v_now + 1000000
        UNION ALL
        SELECT j.id, 'running_half', 'a running job lacks token, lease or worker: nobody can settle or reap it'
        FROM turno.job j
        WHERE j.state = 'running' AND (j.token IS NULL OR j.lease_until IS NULL OR j.worker IS NULL OR j.run_until IS NULL)
        UNION ALL
        SELECT j.id, 'lease_too_long', 'a lease outlives its attempt''s time: the reaper cannot end it'
        FROM turno.job j WHERE j.state = 'running' AND j.lease_until > j.run_until
        UNION ALL
        SELECT j.id, 'budget_spent', 'an unfinished job has no failure left: it should be dead'
        FROM turno.job j WHERE j.failures >= j.max_attempts
        UNION ALL
        SELECT a.job_id, 'attempt_ahead', 'a recorded attempt is later than the job''s own count'
        FROM turno.attempt a JOIN turno.job j ON j.id = a.job_id WHERE a.attempt > j.attempt
        UNION ALL
        SELECT a.job_id, 'attempt_orphan', 'attempts of a job that is gone'
        FROM turno.attempt a
        WHERE NOT EXISTS (SELECT 1 FROM turno.job j WHERE j.id = a.job_id)
          AND NOT EXISTS (SELECT 1 FROM turno.finished_job f WHERE f.id = a.job_id)
        UNION ALL
        SELECT k.job_id, 'key_orphan', 'an idempotency key stands for a job that is gone: its enqueue would create nothing'
        FROM turno.enqueue_key k
        WHERE NOT EXISTS (SELECT 1 FROM turno.job j WHERE j.id = k.job_id)
          AND NOT EXISTS (SELECT 1 FROM turno.finished_job f WHERE f.id = k.job_id)
        UNION ALL
        SELECT j.id, 'unique_key_free', 'an unfinished job does not hold its unique key: another with that key could be created'
        FROM turno.job j LEFT JOIN turno.unique_key k ON k.queue = j.queue AND k.key = j.unique_key
        WHERE j.unique_key IS NOT NULL AND NOT k.job_id <=> j.id
        UNION ALL
        SELECT k.job_id, 'unique_key_orphan', 'a unique key is held by no unfinished job: its enqueue would create nothing'
        FROM turno.unique_key k WHERE NOT EXISTS (SELECT 1 FROM turno.job j WHERE j.id = k.job_id)
    ) c
    GROUP BY c.check_name, c.meaning ORDER BY c.check_name;
END
