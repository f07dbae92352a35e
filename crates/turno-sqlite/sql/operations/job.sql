-- job: everything known about one job, wherever it is in its life. Never its token.
-- Takes: :job. Returns: at most one row.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: nothing
-- Rules: O6, E8

-- statement: find
SELECT j.id, j.queue, j.kind, j.state, j.payload, j.priority, j.attempt, j.failures, j.max_attempts, j.max_run_ms, j.operation_id,
    j.unique_key, j.created_at, j.run_at, coalesce(j.worker, last.worker), coalesce(j.claimed_at, last.claimed_at), j.lease_until,
    j.cancel_requested_at, NULL, NULL,
    (SELECT e.error FROM turno_attempt AS e WHERE e.job_id = j.id AND e.error IS NOT NULL ORDER BY e.attempt DESC LIMIT 1),
    j.traceparent
FROM turno_job AS j
LEFT JOIN turno_attempt AS last ON last.job_id = j.id
    AND last.attempt = (SELECT max(a.attempt) FROM turno_attempt AS a WHERE a.job_id = j.id)
WHERE j.id = :job
UNION ALL
SELECT f.id, f.queue, f.kind, f.outcome, f.payload, f.priority, f.attempt, f.failures, f.max_attempts, f.max_run_ms, f.operation_id,
    f.unique_key, f.created_at, f.run_at, coalesce(f.worker, last.worker), coalesce(f.claimed_at, last.claimed_at), NULL, NULL,
    f.finished_at, f.result, f.error, f.traceparent
FROM turno_finished_job AS f
LEFT JOIN turno_attempt AS last ON last.job_id = f.id
    AND last.attempt = (SELECT max(a.attempt) FROM turno_attempt AS a WHERE a.job_id = f.id)
WHERE f.id = :job
LIMIT 1;
