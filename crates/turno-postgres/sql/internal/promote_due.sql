-- promote_due: makes due scheduled jobs of these queues ready.
-- Takes: queues, the most rows to touch. Returns: how many became ready.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: job
-- Locks: job rows in due order; skips those that somebody holds
-- Rules: C3, H2
CREATE OR REPLACE FUNCTION turno.promote_due(p_queues text[], p_limit integer) RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_now   timestamptz := clock_timestamp();
    v_left  integer := p_limit;
    v_queue text;
    v_ids   bigint[];
    v_aging bigint;
BEGIN
    FOREACH v_queue IN ARRAY p_queues LOOP
        EXIT WHEN v_left <= 0;
        CONTINUE WHEN EXISTS (SELECT FROM turno.queue q WHERE q.queue = v_queue AND q.paused_at IS NOT NULL);
        v_ids := ARRAY(SELECT j.id FROM turno.job j WHERE j.queue = v_queue AND j.state = 'scheduled' AND j.run_at <= v_now
                       ORDER BY j.run_at, j.id LIMIT v_left FOR UPDATE SKIP LOCKED);
        CONTINUE WHEN cardinality(v_ids) = 0;
        v_aging := (turno.settings(v_queue)).aging_ms;
        UPDATE turno.job j SET state = 'ready', rank = turno.rank_of(j.run_at, j.priority, v_aging) WHERE j.id = ANY (v_ids);
        v_left := v_left - cardinality(v_ids);
    END LOOP;
    RETURN p_limit - v_left;
END $$;
