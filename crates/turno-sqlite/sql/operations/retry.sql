-- retry: runs a dead job again: failures 0, due now, the same id and operation id, and attempt goes on. Its last attempt moves to the
-- attempts, so that a late repeat of its settle is still told what became of it.
-- Takes: :job, :step, :now. Returns: find: what the caller decides by.
-- Raises: NotFound; Conflict if it is not dead, only its receipt is left, its attempts are used up or its unique key is taken
-- Transaction: its own
-- Writes: attempt, job, finished_job
-- Locks: the database for writing
-- Rules: P3, E5, F7, X1

-- statement: find
SELECT outcome, queue, unique_key, attempt, payload IS NOT NULL FROM turno_finished_job WHERE id = :job;

-- statement: record_attempt
INSERT OR REPLACE INTO turno_attempt (job_id, attempt, queue, verb, token_hash, worker, claimed_at, started_at, ended_at, charged,
    error, error_bytes, state, run_at)
SELECT id, attempt, queue, verb, token_hash, worker, claimed_at, started_at, finished_at, charged, error, error_bytes, outcome, NULL
FROM turno_finished_job
WHERE id = :job AND verb IS NOT NULL AND claimed_at IS NOT NULL;

-- statement: trim_attempts
DELETE FROM turno_attempt WHERE job_id = :job AND attempt > 100
    AND attempt <= (SELECT attempt FROM turno_finished_job WHERE id = :job) - 100;

-- statement: revive
INSERT INTO turno_job (id, queue, kind, payload, state, priority, rank, run_at, first_due_at, attempt, failures, max_attempts,
    max_run_ms, unique_key, operation_id, created_at, traceparent)
SELECT id, queue, kind, payload, 'ready', priority, :now + priority * :step, :now, :now, attempt, 0, max_attempts,
    max_run_ms, unique_key, operation_id, created_at, traceparent
FROM turno_finished_job WHERE id = :job;

-- statement: leave
DELETE FROM turno_finished_job WHERE id = :job;
