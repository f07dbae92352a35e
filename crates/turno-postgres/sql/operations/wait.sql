-- wait: marks that somebody sleeps until one of these queues has work, so that enqueue rings (NOTIFY on the channel named like the
-- schema, with an empty payload).
-- Takes: queues; for how many ms.
-- Returns: nothing.
-- Raises: TU001
-- Transaction: owns its own
-- Writes: waiting, at most twice a p_ttl_ms for each queue however many sleepers there are
-- Locks: the queue's row of waiting
-- Rules: W2
CREATE OR REPLACE FUNCTION turno.wait(p_queues text[], p_ttl_ms bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_ttl interval := make_interval(secs => p_ttl_ms / 1000.0);
BEGIN
    IF p_ttl_ms IS NULL OR p_ttl_ms NOT BETWEEN 1 AND 3600000 THEN
        RAISE EXCEPTION 'a wait has 1..3600000 ms' USING ERRCODE = 'TU001';
    END IF;
    IF p_queues IS NULL OR array_position(p_queues, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'a wait names its queues' USING ERRCODE = 'TU001';
    END IF;
    -- Marked for twice as long, so that the mark of the next sleeper is usually there already.
    INSERT INTO turno.waiting AS w (queue, until)
    SELECT DISTINCT q, v_now + 2 * v_ttl FROM unnest(p_queues) q
    WHERE NOT EXISTS (SELECT FROM turno.waiting m WHERE m.queue = q AND m.until >= v_now + v_ttl)
    ORDER BY q
    ON CONFLICT (queue) DO UPDATE SET until = greatest(w.until, excluded.until);
END $$;
