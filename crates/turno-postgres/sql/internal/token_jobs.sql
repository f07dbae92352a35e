-- token_jobs: the running jobs of one token.
-- Takes: the token. Returns: jobs.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: C5
CREATE OR REPLACE FUNCTION turno.token_jobs(p_token uuid)
RETURNS TABLE (id bigint, queue text, kind text, payload text, priority integer, attempt bigint, token uuid, failures integer,
    max_attempts integer, operation_id uuid, run_at timestamptz, created_at timestamptz, claimed_at timestamptz,
    lease_until timestamptz, max_run_ms bigint, rank bigint, traceparent text)
LANGUAGE sql STABLE
AS $$
    SELECT j.id, j.queue, j.kind, j.payload, j.priority, j.attempt, j.token, j.failures, j.max_attempts, j.operation_id, j.run_at,
           j.created_at, j.claimed_at, j.lease_until, j.max_run_ms, j.rank, j.traceparent
    FROM turno.job j WHERE j.token = p_token AND j.state = 'running'
$$;
