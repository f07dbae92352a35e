-- reap_expired: ends expired leases, whoever held them. Each row is locked while its lease is tested, so there is no moment
-- between the decision and the change.
-- Takes: the most rows to touch, the grace in ms after an outage (0: none).
-- Returns: the jobs with their state; a row with a NULL job and the remaining hold if the reaper holds back.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: job, attempt, finished_job, reaper
-- Locks: job rows in order of their lease's end; skips those that somebody holds
-- Rules: R1, R2, R3, H2
CREATE OR REPLACE FUNCTION turno.reap_expired(p_limit integer, p_grace_ms bigint)
RETURNS TABLE (job_id bigint, attempt bigint, state text, holding_for_ms bigint)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_now  timestamptz := clock_timestamp();
    v_hold timestamptz := turno.reaper_hold(p_grace_ms, v_now);
    v_job  turno.job;
    v_end  record;
BEGIN
    IF v_hold > v_now THEN
        RETURN QUERY SELECT NULL::bigint, NULL::bigint, NULL::text, ceil(extract(epoch FROM v_hold - v_now) * 1000)::bigint;
        RETURN;
    END IF;
    FOR v_job IN SELECT j.* FROM turno.job j WHERE j.lease_until < v_now
                 ORDER BY j.lease_until, j.id LIMIT p_limit FOR UPDATE SKIP LOCKED
    LOOP
        v_end := turno.end_attempt(v_job, 'expire',
            format('the lease expired at %s: worker %s was lost', to_char(v_job.lease_until AT TIME ZONE 'UTC',
                   'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), v_job.worker), NULL, NULL, NULL, v_now);
        RETURN QUERY SELECT v_job.id, v_job.attempt, v_end.state, NULL::bigint;
    END LOOP;
END $$;
