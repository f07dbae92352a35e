-- find: a page of the jobs that have a unique key, and of those that an idempotency key stands for, newest id first, in any state.
-- Takes: the key; a queue or NULL; the id below which to go on or NULL; rows of a page.
-- Returns: rows as job does. A last row that has nothing but an id says that the search stopped there, after 10000 ended jobs of other
--          queues with this key: go on below it.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V2, V6, V7, O6
CREATE OR REPLACE FUNCTION turno.find(
    p_key text, p_queue text DEFAULT NULL, p_before bigint DEFAULT NULL, p_limit integer DEFAULT 100)
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
    v_queues text[];
    v_ids    bigint[];
    v_stop   bigint;
BEGIN
    PERFORM turno.batch_check(p_limit);
    v_queues := CASE WHEN p_queue IS NULL THEN ARRAY(SELECT n.queue FROM turno.queue_names() n) ELSE ARRAY[p_queue] END;
    v_ids := ARRAY(
        SELECT c.id FROM (
            (SELECT s.id FROM (SELECT f.id, f.queue FROM turno.finished_job f WHERE f.unique_key = p_key AND f.id < v_before
                               ORDER BY f.unique_key DESC, f.id DESC LIMIT 10000) s
             WHERE p_queue IS NULL OR s.queue = p_queue ORDER BY s.id DESC LIMIT p_limit)
            UNION
            SELECT o.id FROM unnest(v_queues) AS q (queue)
            CROSS JOIN LATERAL (
                SELECT k.job_id FROM turno.enqueue_key k WHERE k.queue = q.queue AND k.key = p_key
                UNION ALL
                SELECT j.id FROM turno.job j WHERE j.queue = q.queue AND j.unique_key = p_key) o (id)) c
        WHERE c.id < v_before ORDER BY c.id DESC LIMIT p_limit);
    IF p_queue IS NOT NULL AND cardinality(v_ids) < p_limit THEN
        v_stop := (SELECT f.id FROM turno.finished_job f WHERE f.unique_key = p_key AND f.id < v_before
                   ORDER BY f.unique_key DESC, f.id DESC OFFSET 9999 LIMIT 1);
    END IF;
    -- What the search has not come to yet is for the next page, which begins below the place where it stopped.
    RETURN QUERY SELECT * FROM turno.job_records(v_ids) r WHERE r.id >= coalesce(v_stop, 0) ORDER BY r.id DESC;
    IF v_stop IS NOT NULL THEN
        id := v_stop;
        RETURN NEXT;
    END IF;
END $$;
