-- claim_take: locks the best ready jobs and makes them running. The locking scan is an array of its own: joined to the update, the
-- planner may run it more than once and lock more rows than asked for, or scan the table instead.
-- Takes: the arguments of claim. Returns: how many jobs were taken.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: job
-- Locks: job rows in rank order; skips those that somebody holds
-- Rules: C1, C2, C3, C4, C8, F2, H3, P5
CREATE OR REPLACE FUNCTION turno.claim_take(
    p_queues text[], p_worker text, p_limit integer, p_lease_ms bigint, p_token uuid, p_start integer, p_from_ranks bigint[])
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_now   timestamptz := clock_timestamp();
    v_taken integer := 0;
    v_start integer;
    v_ids   bigint[];
BEGIN
    FOR i IN 1..cardinality(p_queues) LOOP
        EXIT WHEN v_taken >= p_limit;
        CONTINUE WHEN EXISTS (SELECT FROM turno.queue q WHERE q.queue = p_queues[i] AND q.paused_at IS NOT NULL);
        v_ids := ARRAY(SELECT j.id FROM turno.job j
                       WHERE j.queue = p_queues[i] AND j.state = 'ready'
                         AND j.rank >= coalesce(p_from_ranks[i], -9223372036854775808)
                       ORDER BY j.rank, j.id LIMIT p_limit - v_taken FOR UPDATE SKIP LOCKED);
        CONTINUE WHEN cardinality(v_ids) = 0;
        v_start := least(cardinality(v_ids), greatest(0, coalesce(p_start, p_limit) - v_taken));
        UPDATE turno.job j
        SET state = 'running', attempt = j.attempt + 1, token = p_token, worker = p_worker, claimed_at = v_now,
            started_at = CASE WHEN v_start = cardinality(v_ids) OR j.id = ANY (v_ids[1:v_start]) THEN v_now END,
            run_until = v_now + (j.max_run_ms + 10000) * interval '1 millisecond',
            lease_until = v_now + least(p_lease_ms, j.max_run_ms + 10000) * interval '1 millisecond'
        WHERE j.id = ANY (v_ids);
        v_taken := v_taken + cardinality(v_ids);
    END LOOP;
    RETURN v_taken;
END $$;
