-- jobs: a page of jobs in one state, newest id first.
-- Takes: the state; a queue or NULL; a kind or NULL; the id below which to go on or NULL; rows of a page.
-- Returns: rows as job does.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V2, O6
CREATE OR REPLACE FUNCTION turno.jobs(
    p_state text, p_queue text DEFAULT NULL, p_kind text DEFAULT NULL, p_before bigint DEFAULT NULL, p_limit integer DEFAULT 100)
RETURNS TABLE (id bigint, queue text, kind text, state text, payload text, priority integer, attempt bigint, failures integer,
    max_attempts integer, max_run_ms bigint, operation_id uuid, unique_key text, created_at timestamptz, run_at timestamptz,
    worker text, claimed_at timestamptz, lease_until timestamptz, cancel_requested_at timestamptz, finished_at timestamptz,
    result text, error text, traceparent text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_before bigint := coalesce(p_before, 9223372036854775807);
    v_ids    bigint[];
BEGIN
    PERFORM turno.batch_check(p_limit);
    IF p_state IN ('scheduled', 'ready', 'running') THEN
        v_ids := ARRAY(SELECT j.id FROM turno.job j WHERE j.state = p_state AND j.id < v_before
                         AND (p_queue IS NULL OR j.queue = p_queue) AND (p_kind IS NULL OR j.kind = p_kind)
                       ORDER BY j.id DESC LIMIT p_limit);
    ELSIF p_state = 'succeeded' THEN
        v_ids := ARRAY(SELECT f.id FROM turno.finished_job f WHERE f.outcome = 'succeeded' AND f.id < v_before
                         AND (p_queue IS NULL OR f.queue = p_queue) AND (p_kind IS NULL OR f.kind = p_kind)
                       ORDER BY f.id DESC LIMIT p_limit);
    ELSIF p_state IN ('dead', 'cancelled') THEN
        -- The condition of the small partial index, so that a million successes are not read for ten dead jobs.
        v_ids := ARRAY(SELECT f.id FROM turno.finished_job f WHERE f.outcome <> 'succeeded' AND f.outcome = p_state
                         AND f.id < v_before AND (p_queue IS NULL OR f.queue = p_queue) AND (p_kind IS NULL OR f.kind = p_kind)
                       ORDER BY f.id DESC LIMIT p_limit);
    ELSE
        RAISE EXCEPTION '% is not a state', p_state USING ERRCODE = 'TU001';
    END IF;
    RETURN QUERY SELECT * FROM turno.job_records(v_ids) r ORDER BY r.id DESC;
END $$;
