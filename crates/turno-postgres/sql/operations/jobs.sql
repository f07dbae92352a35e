-- jobs: a page of jobs in one state, newest id first, at a bounded cost: it looks at the newest 10000 jobs, and if those do not fill
--       the page, at all of the state or of the queue's state if those are at most 10000.
-- Takes: the state; a queue or NULL; a kind or NULL; the id below which to go on or NULL; rows of a page.
-- Returns: rows as job does. A last row that has nothing but an id says that the search stopped there: go on below it.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V2, V6, O6
CREATE OR REPLACE FUNCTION turno.jobs(
    p_state text, p_queue text DEFAULT NULL, p_kind text DEFAULT NULL, p_before bigint DEFAULT NULL, p_limit integer DEFAULT 100)
RETURNS TABLE (id bigint, queue text, kind text, state text, payload text, priority integer, attempt bigint, failures integer,
    max_attempts integer, max_run_ms bigint, operation_id uuid, unique_key text, created_at timestamptz, run_at timestamptz,
    worker text, claimed_at timestamptz, lease_until timestamptz, cancel_requested_at timestamptz, finished_at timestamptz,
    result text, error text, traceparent text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_before bigint := coalesce(p_before, 9223372036854775807);
    v_ids    bigint[];
    v_stop   bigint;
    v_few    bigint[];
BEGIN
    PERFORM turno.batch_check(p_limit);
    IF p_state IN ('scheduled', 'ready', 'running') THEN
        v_ids := ARRAY(SELECT s.id FROM (SELECT j.id, j.state, j.queue, j.kind FROM turno.job j WHERE j.id < v_before
                                         ORDER BY j.id DESC LIMIT 10000) s
                       WHERE s.state = p_state AND (p_queue IS NULL OR s.queue = p_queue) AND (p_kind IS NULL OR s.kind = p_kind)
                       ORDER BY s.id DESC LIMIT p_limit);
    ELSIF p_state = 'succeeded' THEN
        v_ids := ARRAY(SELECT s.id FROM (SELECT f.id, f.outcome, f.queue, f.kind FROM turno.finished_job f WHERE f.id < v_before
                                         ORDER BY f.id DESC LIMIT 10000) s
                       WHERE s.outcome = p_state AND (p_queue IS NULL OR s.queue = p_queue) AND (p_kind IS NULL OR s.kind = p_kind)
                       ORDER BY s.id DESC LIMIT p_limit);
    ELSIF p_state IN ('dead', 'cancelled') THEN
        -- The condition of the small partial index, so that a million successes are not read for ten dead jobs.
        v_ids := ARRAY(SELECT s.id FROM (SELECT f.id, f.queue, f.kind FROM turno.finished_job f WHERE f.outcome <> 'succeeded'
                                             AND f.outcome = p_state AND f.id < v_before ORDER BY f.id DESC LIMIT 10000) s
                       WHERE (p_queue IS NULL OR s.queue = p_queue) AND (p_kind IS NULL OR s.kind = p_kind)
                       ORDER BY s.id DESC LIMIT p_limit);
    ELSE
        RAISE EXCEPTION '% is not a state', p_state USING ERRCODE = 'TU001';
    END IF;
    IF cardinality(v_ids) < p_limit THEN
        v_stop := turno.jobs_stop(p_state, v_before);
    END IF;
    IF v_stop IS NOT NULL THEN
        v_few := turno.jobs_few(p_state, p_queue, p_kind, v_before, p_limit);
        v_ids := coalesce(v_few, v_ids);
    END IF;
    RETURN QUERY SELECT * FROM turno.job_records(v_ids) r ORDER BY r.id DESC;
    IF v_stop IS NOT NULL AND v_few IS NULL THEN
        id := v_stop;
        RETURN NEXT;
    END IF;
END $$;
