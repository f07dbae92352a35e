-- held: the jobs that a token holds: the answer to a claim whose reply was lost.
-- Takes: the token.
-- Returns: jobs as claim does, without the last column.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: C5
CREATE OR REPLACE FUNCTION turno.held(p_token uuid)
RETURNS TABLE (id bigint, queue text, kind text, payload text, priority integer, attempt bigint, token uuid, failures integer,
    max_attempts integer, operation_id uuid, run_at timestamptz, created_at timestamptz, claimed_at timestamptz,
    lease_until timestamptz, max_run_ms bigint, rank bigint, traceparent text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
AS $$ SELECT h.* FROM turno.token_jobs(p_token) h ORDER BY h.rank, h.id $$;
