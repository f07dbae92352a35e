-- reap: ends leases that have expired, and no others. expired lists them; each goes through internal/end_attempt.sql with the verb
-- 'expire' in the same transaction, so that nothing can come between the test and the change.
-- Takes: :limit, :now. reaper: the memory of who reaped when; remember, hold: what the caller decided from it and its grace.
-- Returns: expired: job, attempt, worker, the lease's end as text.
-- Raises: nothing
-- Transaction: its own
-- Writes: job, attempt, finished_job, reaper (at most four times a grace)
-- Locks: the database for writing
-- Rules: R1, R2, R3, F1, F2, F3, O4, H2

-- statement: reaper
SELECT last_reap_at, hold_from FROM turno_reaper WHERE only_row = 1;

-- statement: remember
UPDATE turno_reaper SET last_reap_at = :now WHERE only_row = 1;

-- statement: hold
UPDATE turno_reaper SET hold_from = :now WHERE only_row = 1;

-- statement: expired
SELECT id, attempt, worker, strftime('%Y-%m-%dT%H:%M:%fZ', lease_until / 1000000.0, 'unixepoch')
FROM turno_job
WHERE state = 'running' AND lease_until <= :now
ORDER BY lease_until, id
LIMIT :limit;
