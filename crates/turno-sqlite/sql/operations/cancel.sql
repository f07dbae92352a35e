-- cancel: ends a waiting job as cancelled; asks the worker of a running one to stop, or by force revokes it. Waiting jobs and
-- revoked ones end through internal/end_attempt.sql (verb NULL, verb 'revoke').
-- Takes: :job, :now. Returns: find: the job's state, wherever it is.
-- Raises: NotFound
-- Transaction: its own
-- Writes: job, finished_job
-- Locks: the database for writing
-- Rules: P1, P2, O4

-- statement: find
SELECT state FROM turno_job WHERE id = :job
UNION ALL
SELECT outcome FROM turno_finished_job WHERE id = :job
LIMIT 1;

-- statement: request
UPDATE turno_job SET cancel_requested_at = coalesce(cancel_requested_at, :now) WHERE id = :job AND state = 'running';
