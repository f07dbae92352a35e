-- stats: what an operator looks at first, per queue, at a cost that does not grow with the tables.
-- Takes: the window of history in ms.
-- Returns: per queue: paused; age of the oldest due job; ready, scheduled, running, expired; succeeded, dead, cancelled, retries and
--          refused within the window (counts stop at 10000); time to start and to finish in ms, median and 99th percentile of the
--          latest 1000 jobs of each outcome that ended in the window.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V1
CREATE OR REPLACE FUNCTION turno.stats(p_window_ms bigint DEFAULT 3600000)
RETURNS TABLE (queue text, paused boolean, oldest_due_age_ms bigint, ready bigint, scheduled bigint, running bigint, expired bigint,
    succeeded bigint, dead bigint, cancelled bigint, retries bigint, refused bigint, start_p50_ms bigint, start_p99_ms bigint,
    finish_p50_ms bigint, finish_p99_ms bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_now   timestamptz := clock_timestamp();
    v_since timestamptz := v_now - make_interval(secs => p_window_ms / 1000.0);
BEGIN
    IF p_window_ms IS NULL OR p_window_ms NOT BETWEEN 1 AND 315360000000 THEN
        RAISE EXCEPTION 'a window has 1..315360000000 ms' USING ERRCODE = 'TU001';
    END IF;
    RETURN QUERY
    SELECT n.queue, (s.queue = n.queue AND s.paused_at IS NOT NULL),
           turno.oldest_due_ms(n.queue, s.aging_ms, v_now),
           (SELECT count(*) FROM (SELECT FROM turno.job j WHERE j.queue = n.queue AND j.state = 'ready' LIMIT 10000) c),
           (SELECT count(*) FROM (SELECT FROM turno.job j WHERE j.queue = n.queue AND j.state = 'scheduled' LIMIT 10000) c),
           coalesce(r.running, 0), coalesce(r.expired, 0), h.succeeded, h.dead, h.cancelled,
           (SELECT count(*) FROM (SELECT FROM turno.attempt a WHERE a.queue = n.queue AND a.ended_at >= v_since AND a.charged
                                  LIMIT 10000) c),
           (SELECT count(*) FROM (SELECT FROM turno.refused f WHERE f.queue = n.queue AND f.last_at >= v_since LIMIT 10000) c),
           h.start_p50_ms, h.start_p99_ms, h.finish_p50_ms, h.finish_p99_ms
    FROM turno.queue_names() n
    CROSS JOIN LATERAL turno.settings(n.queue) s
    CROSS JOIN LATERAL turno.history_stats(n.queue, v_since) h
    LEFT JOIN (SELECT t.queue, count(*) AS running, count(*) FILTER (WHERE t.lease_until < v_now) AS expired
               FROM (SELECT j.queue, j.lease_until FROM turno.job j WHERE j.state = 'running' LIMIT 100000) t
               GROUP BY t.queue) r ON r.queue = n.queue;
END $$;
