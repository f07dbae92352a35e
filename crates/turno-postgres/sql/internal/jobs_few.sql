-- jobs_few: a page of the jobs in one state that an index can name, if they are few. Ended jobs have such an index by queue only.
-- Takes: the state; a queue or NULL; a kind or NULL; the id below which to go on; rows of a page.
-- Returns: the ids of the page, newest first; NULL if more than 10000 jobs are in this state.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V6
CREATE OR REPLACE FUNCTION turno.jobs_few(p_state text, p_queue text, p_kind text, p_before bigint, p_limit integer)
RETURNS bigint[]
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_column
DECLARE
    v_queues text[];
BEGIN
    IF p_queue IS NULL AND p_state IN ('succeeded', 'dead', 'cancelled') THEN
        RETURN NULL;
    END IF;
    v_queues := CASE WHEN p_queue IS NULL THEN ARRAY(SELECT n.queue FROM turno.queue_names() n) ELSE ARRAY[p_queue] END;
    RETURN (
        WITH few AS MATERIALIZED (
            SELECT c.id, c.kind
            FROM unnest(v_queues) AS q (queue)
            CROSS JOIN LATERAL (
                (SELECT j.id, j.kind FROM turno.job j WHERE p_state = 'ready' AND j.state = 'ready' AND j.queue = q.queue
                 ORDER BY j.queue, j.rank, j.id LIMIT 10001)
                UNION ALL
                (SELECT j.id, j.kind FROM turno.job j WHERE p_state = 'scheduled' AND j.state = 'scheduled' AND j.queue = q.queue
                 ORDER BY j.queue, j.run_at, j.id LIMIT 10001)
                UNION ALL
                (SELECT f.id, f.kind FROM turno.finished_job f
                 WHERE p_state = 'succeeded' AND f.queue = q.queue AND f.outcome = p_state
                   AND hashtextextended(f.queue, ascii(f.outcome)) = hashtextextended(q.queue, ascii(p_state))
                 ORDER BY hashtextextended(f.queue, ascii(f.outcome)), f.finished_at, f.id LIMIT 10001)
                UNION ALL
                (SELECT f.id, f.kind FROM turno.finished_job f
                 WHERE p_state IN ('dead', 'cancelled') AND f.outcome <> 'succeeded' AND f.outcome = p_state AND f.queue = q.queue
                 ORDER BY f.outcome, f.queue, f.id LIMIT 10001)) c
            UNION ALL
            (SELECT r.id, r.kind FROM (SELECT j.id, j.queue, j.kind FROM turno.job j WHERE p_state = 'running' AND j.lease_until IS NOT NULL
                                       ORDER BY j.lease_until, j.id LIMIT 10001) r
             WHERE p_queue IS NULL OR r.queue = p_queue)
            LIMIT 10001)
        SELECT CASE WHEN (SELECT count(*) FROM few) <= 10000
                    THEN ARRAY(SELECT f.id FROM few f WHERE f.id < p_before AND (p_kind IS NULL OR f.kind = p_kind)
                               ORDER BY f.id DESC LIMIT p_limit) END);
END $$;
