-- claim_lock: locks the best ready jobs. The locking scan is an array of its own: joined to the update, the planner may run it more
-- than once and lock more rows than asked for, or scan the table instead.
-- Takes: the arguments of claim. Returns: where these rows are, in the order of service; a row that is locked stays there.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: nothing
-- Locks: job rows in rank order; skips those that somebody else holds
-- Rules: C1, C2, C3, P5
CREATE OR REPLACE FUNCTION turno.claim_lock(p_queues text[], p_limit integer, p_from_ranks bigint[]) RETURNS tid[]
LANGUAGE plpgsql
AS $$
DECLARE
    v_rows tid[] := '{}';
BEGIN
    FOR i IN 1..cardinality(p_queues) LOOP
        EXIT WHEN cardinality(v_rows) >= p_limit;
        -- A queue that is named twice would give its rows twice: our own locks are not skipped.
        CONTINUE WHEN p_queues[i] = ANY (p_queues[:i - 1])
            OR EXISTS (SELECT FROM turno.queue q WHERE q.queue = p_queues[i] AND q.paused_at IS NOT NULL);
        v_rows := v_rows || ARRAY(SELECT j.ctid FROM turno.job j
                                  WHERE j.queue = p_queues[i] AND j.state = 'ready'
                                    AND j.rank >= coalesce(p_from_ranks[i], -9223372036854775808)
                                  ORDER BY j.rank, j.id LIMIT p_limit - cardinality(v_rows) FOR UPDATE SKIP LOCKED);
    END LOOP;
    RETURN v_rows;
END $$;
