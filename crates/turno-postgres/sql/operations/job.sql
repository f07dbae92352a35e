-- job: everything known about one job, wherever it is in its life.
-- Takes: the job.
-- Returns: one row, or none.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: O6, V2
CREATE OR REPLACE FUNCTION turno.job(p_job bigint)
RETURNS TABLE (id bigint, queue text, kind text, state text, payload text, priority integer, attempt bigint, failures integer,
    max_attempts integer, max_run_ms bigint, operation_id uuid, unique_key text, created_at timestamptz, run_at timestamptz,
    worker text, claimed_at timestamptz, lease_until timestamptz, cancel_requested_at timestamptz, finished_at timestamptz,
    result text, error text, traceparent text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$ SELECT * FROM turno.job_records(ARRAY[p_job]) $$;
