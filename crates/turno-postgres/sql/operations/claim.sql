-- claim: gives up to p_limit due jobs to a worker, each under a lease, best first.
-- Takes: queues in the order of service; the worker's label; the most jobs; the lease; a new token; how many of the jobs start at
--        once (NULL: all); per queue the rank where to begin (NULL: the front).
-- Returns: the jobs that the token holds now. If there are none, one row whose id is NULL says in how many ms the next job of
--          these queues is due, and no row at all that nothing is scheduled.
-- Raises: TU001, TU002
-- Transaction: owns its own
-- Writes: job, and what reap writes
-- Locks: an advisory lock of the token, then job rows in rank order; skips those that somebody holds
-- Rules: C1, C2, C3, C4, C5, C6, C7, C8, C10, F2, H3, P5
CREATE OR REPLACE FUNCTION turno.claim(
    p_queues text[], p_worker text, p_limit integer, p_lease_ms bigint, p_token uuid, p_start integer DEFAULT NULL,
    p_from_ranks bigint[] DEFAULT NULL)
RETURNS TABLE (id bigint, queue text, kind text, payload text, priority integer, attempt bigint, token uuid, failures integer,
    max_attempts integer, operation_id uuid, run_at timestamptz, created_at timestamptz, claimed_at timestamptz,
    lease_until timestamptz, max_run_ms bigint, rank bigint, next_due_in_ms bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_left     integer;
    v_next_due bigint;
BEGIN
    PERFORM turno.own_transaction('claim');
    PERFORM turno.claim_check(p_queues, p_worker, p_limit, p_lease_ms, p_token, p_from_ranks);
    -- Two claims with one token wait for each other, so that the second finds what the first took.
    PERFORM pg_advisory_xact_lock(hashtextextended(p_token::text, 0));
    IF NOT EXISTS (SELECT FROM turno.job j WHERE j.token = p_token AND j.state = 'running') THEN
        PERFORM turno.promote_due(p_queues, 1000);
        v_left := p_limit - turno.claim_take(p_queues, p_worker, p_limit, p_lease_ms, p_token, p_start, p_from_ranks);
        IF v_left > 0 AND EXISTS (SELECT FROM turno.reap_expired(1000, p_lease_ms / 3) r WHERE r.state = 'ready') THEN
            v_left := v_left - turno.claim_take(p_queues, p_worker, v_left, p_lease_ms, p_token,
                CASE WHEN p_start IS NOT NULL THEN greatest(0, p_start - (p_limit - v_left)) END, NULL);
        END IF;
        IF v_left > 0 THEN
            v_next_due := turno.next_due_in(p_queues);
        END IF;
    END IF;
    RETURN QUERY
    SELECT h.*, v_next_due FROM turno.token_jobs(p_token) h
    ORDER BY array_position(p_queues, h.queue), h.rank, h.id;
    IF NOT FOUND AND v_next_due IS NOT NULL THEN
        next_due_in_ms := v_next_due;
        RETURN NEXT;
    END IF;
END $$;
