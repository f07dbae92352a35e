-- job_records: everything known about unfinished and ended jobs, in one shape and without tokens.
-- Takes: ids. Returns: a row for each that exists.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: O6
CREATE OR REPLACE FUNCTION turno.job_records(p_ids bigint[])
RETURNS TABLE (id bigint, queue text, kind text, state text, payload text, priority integer, attempt bigint, failures integer,
    max_attempts integer, max_run_ms bigint, operation_id uuid, unique_key text, created_at timestamptz, run_at timestamptz,
    worker text, claimed_at timestamptz, lease_until timestamptz, cancel_requested_at timestamptz, finished_at timestamptz,
    result text, error text, traceparent text)
LANGUAGE sql STABLE
AS $$
    SELECT j.id, j.queue, j.kind, j.state, j.payload, j.priority, j.attempt, j.failures, j.max_attempts, j.max_run_ms, j.operation_id,
           j.unique_key, j.created_at, j.run_at, coalesce(j.worker, last.worker), coalesce(j.claimed_at, last.claimed_at),
           j.lease_until, j.cancel_requested_at, NULL::timestamptz, NULL::text, last.error, j.traceparent
    FROM turno.job j
    LEFT JOIN LATERAL (SELECT a.worker, a.claimed_at, a.error FROM turno.attempt a WHERE a.job_id = j.id
                       ORDER BY a.attempt DESC LIMIT 1) last ON true
    WHERE j.id = ANY (p_ids)
    UNION ALL
    SELECT f.id, f.queue, f.kind, f.outcome, f.payload, f.priority, f.attempt, f.failures, f.max_attempts, f.max_run_ms,
           f.operation_id, f.unique_key, f.created_at, f.run_at, f.worker, f.claimed_at, NULL, NULL, f.finished_at, f.result, f.error,
           f.traceparent
    FROM turno.finished_job f WHERE f.id = ANY (p_ids)
$$;
