-- reprioritize: changes the priority of an unfinished job; its due time stays.
-- Takes: :job, :priority. Returns: change: how many rows it changed; then cancel.find says why none.
-- Raises: NotFound; Conflict if the job has ended
-- Transaction: its own
-- Writes: job
-- Locks: the database for writing
-- Rules: P4, E2, C9
-- DIFFERS: no roles: on other engines this is the scheduler's alone.

-- statement: change
UPDATE turno_job
SET priority = :priority,
    rank = CASE WHEN rank IS NOT NULL THEN run_at + :priority * (
        SELECT coalesce(q.aging_ms * 1000, 4503599627370496) FROM turno_queue AS q
        WHERE q.queue IN (turno_job.queue, '') ORDER BY q.queue DESC LIMIT 1) END
WHERE id = :job;
