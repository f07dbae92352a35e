-- cancel: ends a waiting job as cancelled; asks a running one to stop, or with force revokes it.
-- Takes: the job; whether to revoke a running one at once.
-- Returns: answer cancelled, requested or too_late; for the last, the state in which the job had ended.
-- Raises: TU005
-- Transaction: joins the caller's, or owns its own
-- Writes: job, finished_job
-- Locks: the job's row
-- Rules: P1, P2
CREATE OR REPLACE FUNCTION turno.cancel(p_job bigint, p_force boolean DEFAULT false, OUT answer text, OUT state text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
DECLARE
    v_now timestamptz;
    v_job turno.job;
BEGIN
    SELECT j.* INTO v_job FROM turno.job j WHERE j.id = p_job FOR UPDATE;
    -- Only now: it may have waited for a claim, whose attempt must not end before it began.
    v_now := clock_timestamp();
    IF NOT FOUND THEN
        answer := 'too_late';
        state := turno.ended_as(p_job);
    ELSIF v_job.state = 'running' AND p_force IS NOT TRUE THEN
        answer := 'requested';
        UPDATE turno.job j SET cancel_requested_at = coalesce(j.cancel_requested_at, v_now) WHERE j.id = p_job;
    ELSE
        answer := 'cancelled';
        PERFORM turno.end_attempt(v_job, CASE WHEN v_job.state = 'running' THEN 'revoke' END, NULL, NULL, NULL, NULL, v_now);
    END IF;
END $$;
