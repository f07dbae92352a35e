-- attempts: the ended attempts of one job, in order; the one that ended the job is part of its finished row.
-- Takes: :job. Returns: one row per attempt.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: nothing
-- Rules: F7, O6

-- statement: list
SELECT attempt, worker, claimed_at, started_at, ended_at, verb, charged, error, error_bytes
FROM turno_attempt
WHERE job_id = :job
UNION ALL
SELECT attempt, worker, claimed_at, started_at, finished_at, verb, charged, error, error_bytes
FROM turno_finished_job
WHERE id = :job AND verb IS NOT NULL
ORDER BY 1;
