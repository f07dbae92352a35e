-- release_many: gives jobs back uncharged.
-- Takes: proofs as three arrays, at most 1000; delays in ms (NULL: due as before); who sends them.
-- Returns: per proof its place: status done, already, refused or gone; the job's state; when it is due again; the reason of a
--          refusal.
-- Raises: TU001
-- Transaction: joins the caller's, or owns its own
-- Writes: job, attempt, finished_job (if a cancel was requested), refused
-- Locks: job rows in the order of the request (send them in id order)
-- Rules: S1, S2, S3, S4, S6, S7, P2
CREATE OR REPLACE FUNCTION turno.release_many(
    p_jobs bigint[], p_attempts bigint[], p_tokens uuid[], p_delay_ms bigint[] DEFAULT NULL, p_worker text DEFAULT NULL)
RETURNS TABLE (place bigint, job_id bigint, status text, state text, run_at timestamptz, reason text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_now    timestamptz := clock_timestamp();
    v_job    turno.job;
    v_queues text[];
BEGIN
    PERFORM turno.settle_check(p_jobs, p_attempts, p_tokens);
    IF EXISTS (SELECT FROM unnest(p_delay_ms) d WHERE d NOT BETWEEN 0 AND 31536000000) THEN
        RAISE EXCEPTION 'a delay has 0..31536000000 ms' USING ERRCODE = 'TU001';
    END IF;
    FOR i IN 1..cardinality(p_jobs) LOOP
        place := i; job_id := p_jobs[i]; status := 'done'; reason := NULL;
        SELECT j.* INTO v_job FROM turno.job j
        WHERE j.id = p_jobs[i] AND j.attempt = p_attempts[i] AND j.token = p_tokens[i] FOR UPDATE;
        IF FOUND THEN
            SELECT e.state, e.run_at INTO state, run_at
            FROM turno.end_attempt(v_job, 'release', NULL, NULL, p_delay_ms[i], sha256(uuid_send(p_tokens[i])), v_now) e;
            v_queues := v_queues || v_job.queue;
        ELSE
            SELECT m.status, m.state, m.run_at, m.reason INTO status, state, run_at, reason
            FROM turno.settle_miss(job_id, p_attempts[i], p_tokens[i], 'release', NULL, p_worker) m;
        END IF;
        RETURN NEXT;
    END LOOP;
    PERFORM turno.ring(v_queues);
END $$;
