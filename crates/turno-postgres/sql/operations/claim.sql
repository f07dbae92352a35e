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
    lease_until timestamptz, max_run_ms bigint, rank bigint, traceparent text, next_due_in_ms bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_now      timestamptz;
    v_rows     tid[];
    v_part     tid[];
    v_start    integer;
    v_next_due bigint;
BEGIN
    PERFORM turno.own_transaction('claim');
    PERFORM turno.claim_check(p_queues, p_worker, p_limit, p_lease_ms, p_token, p_from_ranks);
    -- Two claims with one token wait for each other, so that the second finds what the first took.
    PERFORM pg_advisory_xact_lock(hashtextextended(p_token::text, 0));
    RETURN QUERY SELECT h.*, NULL::bigint FROM turno.token_jobs(p_token) h
                 ORDER BY array_position(p_queues, h.queue), h.rank, h.id;
    IF FOUND THEN
        RETURN;
    END IF;
    PERFORM turno.promote_due(p_queues, 1000);
    v_rows := turno.claim_lock(p_queues, p_limit, p_from_ranks);
    IF cardinality(v_rows) < p_limit THEN
        -- Leases that have expired are the sweep's. What is locked already is found once more, next to what came back.
        IF coalesce(num_nonnulls(VARIADIC p_from_ranks), 0) = 0 AND EXISTS (SELECT FROM turno.reap_expired(1000, p_lease_ms / 3) r WHERE r.state = 'ready') THEN
            v_rows := turno.claim_lock(p_queues, p_limit, NULL);
        END IF;
        IF cardinality(v_rows) < p_limit THEN
            v_next_due := turno.next_due_in(p_queues);
        END IF;
    END IF;
    v_now := clock_timestamp();
    v_start := least(cardinality(v_rows), greatest(0, coalesce(p_start, p_limit)));
    -- What starts at once, then what its worker buffers.
    FOR i IN 1..2 LOOP
        v_part := CASE i WHEN 1 THEN v_rows[:v_start] ELSE v_rows[v_start + 1:] END;
        CONTINUE WHEN cardinality(v_part) = 0;
        RETURN QUERY
        WITH taken AS (
            UPDATE turno.job j
            SET state = 'running', attempt = j.attempt + 1, token = p_token, worker = p_worker, claimed_at = v_now,
                started_at = CASE i WHEN 1 THEN v_now END,
                run_until = v_now + (j.max_run_ms + 10000) * interval '1 millisecond',
                lease_until = v_now + least(p_lease_ms, j.max_run_ms + 10000) * interval '1 millisecond'
            WHERE j.ctid = ANY (v_part)
            RETURNING j.id, j.queue, j.kind, j.payload, j.priority, j.attempt, j.token, j.failures, j.max_attempts, j.operation_id,
                      j.run_at, j.created_at, j.claimed_at, j.lease_until, j.max_run_ms, j.rank, j.traceparent)
        SELECT t.*, v_next_due FROM taken t ORDER BY array_position(p_queues, t.queue), t.rank, t.id;
    END LOOP;
    IF cardinality(v_rows) = 0 AND v_next_due IS NOT NULL THEN
        next_due_in_ms := v_next_due;
        RETURN NEXT;
    END IF;
END $$;
