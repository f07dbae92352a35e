-- held: the jobs that a token holds: the answer to a claim with unknown outcome, and to a claim that repeats its token.
-- Takes: :token. Returns: the jobs, best first.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: nothing
-- Rules: C5

-- statement: list
SELECT id, attempt, token, queue, kind, payload, priority, failures, max_attempts, operation_id, run_at, created_at, claimed_at,
    lease_until, max_run_ms, rank, traceparent
FROM turno_job
WHERE token = :token AND state = 'running'
ORDER BY rank, id;
