-- heartbeat: extends one lease, also an expired one that nobody reaped, but never beyond the job's run_until; says what else the
-- worker must know. Run once per lease, many in one transaction.
-- Takes: :job, :attempt, :token, :lease (microseconds), :started (whether the handler has started), :now.
-- Returns: extend: the new end and whether a cancel was requested; no row: ask settled, which says whether this very proof
--          settled the job (then 'finished', else 'lost').
-- Raises: nothing
-- Transaction: its own
-- Writes: job
-- Locks: the database for writing
-- Rules: H1, H3, H4, O2, O3
-- DIFFERS: 'busy' is never answered: with one writer no row is held by an open transaction while this runs.

-- statement: extend
UPDATE turno_job
SET lease_until = min(:now + :lease, run_until),
    started_at = CASE WHEN :started THEN coalesce(started_at, :now) ELSE started_at END
WHERE id = :job AND state = 'running' AND attempt = :attempt AND token = :token
RETURNING lease_until, cancel_requested_at IS NOT NULL;

-- statement: settled
SELECT EXISTS (SELECT 1 FROM turno_finished_job WHERE id = :job AND attempt = :attempt AND token_hash = :token)
    OR EXISTS (SELECT 1 FROM turno_attempt WHERE job_id = :job AND attempt = :attempt AND token_hash = :token);
