-- promote: makes due scheduled jobs ready. Every claim does this for its own queues.
-- Takes: queues (NULL or empty: all), the most rows to touch.
-- Returns: how many jobs became ready.
-- Raises: TU001, TU002
-- Transaction: owns its own
-- Writes: job
-- Locks: job rows in due order; skips those that somebody holds
-- Rules: C3, H2, C10
CREATE OR REPLACE FUNCTION turno.promote(p_queues text[] DEFAULT NULL, p_limit integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    v_queues text[] := p_queues;
    v_count  integer;
BEGIN
    PERFORM turno.own_transaction('promote');
    PERFORM turno.batch_check(p_limit);
    IF coalesce(cardinality(v_queues), 0) = 0 THEN
        v_queues := ARRAY(SELECT n.queue FROM turno.queue_names() n);
    END IF;
    v_count := turno.promote_due(v_queues, p_limit);
    IF v_count > 0 THEN
        PERFORM turno.ring(v_queues);
    END IF;
    RETURN v_count;
END $$;
