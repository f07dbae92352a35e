-- ledger_add: writes one refused result. The same result again counts up; beyond 100 rows for a job the newest row counts.
-- Takes: what was refused, why, and who held the job or how it ended.
-- Returns: nothing.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: refused
-- Locks: one row of the ledger
-- Rules: S7
CREATE OR REPLACE FUNCTION turno.ledger_add(
    p_job bigint, p_attempt bigint, p_verb text, p_detail text, p_worker text, p_reason text, p_queue text, p_state text,
    p_owner text, p_owner_attempt bigint) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    UPDATE turno.refused r SET times = r.times + 1, last_at = v_now
    WHERE r.id = (SELECT max(o.id) FROM turno.refused o WHERE o.job_id = p_job HAVING count(*) >= 100)
      AND NOT EXISTS (SELECT FROM turno.refused s WHERE s.job_id = p_job AND s.attempt = p_attempt AND s.verb = p_verb);
    IF FOUND THEN
        RETURN;
    END IF;
    INSERT INTO turno.refused AS r (job_id, queue, attempt, verb, worker, reason, detail, owner, owner_attempt, state, first_at,
        last_at)
    VALUES (p_job, p_queue, p_attempt, p_verb, left(p_worker, 200), p_reason, turno.cut_error(p_detail), p_owner, p_owner_attempt, p_state,
        v_now, v_now)
    ON CONFLICT (job_id, attempt, verb) DO UPDATE SET times = r.times + 1, last_at = v_now;
END $$;
