-- fail_many: ends attempts as failed: a retry after a delay, or dead, or cancelled if that was asked for.
-- Takes: proofs as three arrays, at most 1000; errors; retry delays in ms (NULL: by policy, -1: never again); who sends them; the
--        errors' lengths before the client cut them.
-- Returns: per proof its place: status done, already, refused or gone; the job's state; when it is due again; the reason of a
--          refusal.
-- Raises: TU001
-- Transaction: joins the caller's, or owns its own
-- Writes: job, attempt, finished_job, refused
-- Locks: job rows in the order of the request (send them in id order)
-- Rules: S1, S3, S4, S6, S7, F1, F3, F4, F5, F6, F7
CREATE OR REPLACE FUNCTION turno.fail_many(
    p_jobs bigint[], p_attempts bigint[], p_tokens uuid[], p_errors text[], p_retry_ms bigint[] DEFAULT NULL,
    p_worker text DEFAULT NULL, p_error_bytes bigint[] DEFAULT NULL)
RETURNS TABLE (place bigint, job_id bigint, status text, state text, run_at timestamptz, reason text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_job turno.job;
BEGIN
    PERFORM turno.settle_check(p_jobs, p_attempts, p_tokens);
    IF EXISTS (SELECT FROM unnest(p_retry_ms) d WHERE d NOT BETWEEN -1 AND 31536000000) THEN
        RAISE EXCEPTION 'a retry delay has 0..31536000000 ms, or is -1' USING ERRCODE = 'TU001';
    END IF;
    FOR i IN 1..cardinality(p_jobs) LOOP
        place := i; job_id := p_jobs[i]; status := 'done'; reason := NULL;
        SELECT j.* INTO v_job FROM turno.job j
        WHERE j.id = p_jobs[i] AND j.attempt = p_attempts[i] AND j.token = p_tokens[i] FOR UPDATE;
        IF FOUND THEN
            SELECT e.state, e.run_at INTO state, run_at
            FROM turno.end_attempt(v_job, 'fail', coalesce(p_errors[i], ''), p_error_bytes[i], p_retry_ms[i],
                                   sha256(uuid_send(p_tokens[i])), v_now) e;
        ELSE
            SELECT m.status, m.state, m.run_at, m.reason INTO status, state, run_at, reason
            FROM turno.settle_miss(job_id, p_attempts[i], p_tokens[i], 'fail', p_errors[i], p_worker) m;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
