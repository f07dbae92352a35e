-- heartbeat: extends leases, each never beyond the end of its attempt's time.
-- Takes: proofs as three arrays, at most 1000; the lease in ms; which handlers have started (NULL: all).
-- Returns: per proof its place: held (until when, for how many ms from now, whether a cancel was requested), busy, lost or finished.
-- Raises: TU001
-- Transaction: joins the caller's, or owns its own
-- Writes: job
-- Locks: job rows in id order; skips those that somebody holds, so one row in an open transaction delays no other lease
-- Rules: O2, H1, H2, H3, H4
CREATE OR REPLACE FUNCTION turno.heartbeat(
    p_jobs bigint[], p_attempts bigint[], p_tokens uuid[], p_lease_ms bigint, p_started boolean[] DEFAULT NULL)
RETURNS TABLE (place bigint, job_id bigint, answer text, held_until timestamptz, held_for_ms bigint, cancel_requested boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_now     timestamptz := clock_timestamp();
    v_lease   interval := make_interval(secs => p_lease_ms / 1000.0);
    v_ids     bigint[];
    v_started bigint[];
BEGIN
    PERFORM turno.settle_check(p_jobs, p_attempts, p_tokens);
    IF p_lease_ms IS NULL OR p_lease_ms NOT BETWEEN 1 AND 86400000 THEN
        RAISE EXCEPTION 'a lease has 1..86400000 ms' USING ERRCODE = 'TU001';
    END IF;
    -- Looked up one by one, as in complete_many.
    v_ids := ARRAY(SELECT l.id FROM (SELECT * FROM unnest(p_jobs, p_attempts, p_tokens) AS u (job_id, attempt, token)
                                     ORDER BY u.job_id) b
                   CROSS JOIN LATERAL (SELECT j.id FROM turno.job j
                                       WHERE j.id = b.job_id AND j.attempt = b.attempt AND j.token = b.token
                                       LIMIT 1 FOR UPDATE SKIP LOCKED) l);
    v_started := ARRAY(SELECT b.job_id FROM unnest(p_jobs, p_started) AS b (job_id, started) WHERE b.started IS NOT FALSE);
    UPDATE turno.job j
    SET lease_until = least(v_now + v_lease, j.run_until),
        started_at = CASE WHEN j.started_at IS NULL AND j.id = ANY (v_started) THEN v_now ELSE j.started_at END
    WHERE j.id = ANY (v_ids);
    RETURN QUERY
    SELECT b.place, b.job_id,
           CASE WHEN j.id = ANY (v_ids) THEN 'held' WHEN j.id IS NOT NULL THEN 'busy'
                WHEN f.id IS NOT NULL OR a.job_id IS NOT NULL THEN 'finished' ELSE 'lost' END,
           j.lease_until, ceil(extract(epoch FROM j.lease_until - v_now) * 1000)::bigint, j.cancel_requested_at IS NOT NULL
    FROM unnest(p_jobs, p_attempts, p_tokens) WITH ORDINALITY AS b (job_id, attempt, token, place)
    LEFT JOIN LATERAL (SELECT * FROM turno.job o WHERE o.id = b.job_id AND o.attempt = b.attempt AND o.token = b.token
                       LIMIT 1) j ON true
    LEFT JOIN LATERAL (SELECT o.id FROM turno.finished_job o WHERE j.id IS NULL AND o.id = b.job_id AND o.attempt = b.attempt
                       AND o.token_hash = sha256(uuid_send(b.token)) LIMIT 1) f ON true
    LEFT JOIN LATERAL (SELECT o.job_id FROM turno.attempt o WHERE j.id IS NULL AND o.job_id = b.job_id
                       AND o.attempt = b.attempt AND o.token_hash = sha256(uuid_send(b.token)) LIMIT 1) a ON true
    ORDER BY b.place;
END $$;
