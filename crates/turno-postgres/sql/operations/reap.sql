-- reap: ends expired leases: back to waiting with back-off, dead, or cancelled if that was asked for. Anybody may run it at any time.
-- Takes: the most rows to touch; the grace in ms: if nobody has reaped for longer, it first waits one grace (0: it does not).
-- Returns: the jobs with their lost attempt and new state; or one row with a NULL job and how long the reaper holds back.
-- Raises: TU001, TU002
-- Transaction: owns its own
-- Writes: job, attempt, finished_job, reaper
-- Locks: job rows in order of their lease's end; skips those that somebody holds
-- Rules: R1, R2, R3, H2, C10
CREATE OR REPLACE FUNCTION turno.reap(p_limit integer DEFAULT 1000, p_grace_ms bigint DEFAULT 0)
RETURNS TABLE (job_id bigint, attempt bigint, state text, holding_for_ms bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    PERFORM turno.own_transaction('reap');
    PERFORM turno.batch_check(p_limit);
    IF p_grace_ms NOT BETWEEN 0 AND 86400000 THEN
        RAISE EXCEPTION 'a grace has 0..86400000 ms' USING ERRCODE = 'TU001';
    END IF;
    RETURN QUERY SELECT * FROM turno.reap_expired(p_limit, coalesce(p_grace_ms, 0));
END $$;
