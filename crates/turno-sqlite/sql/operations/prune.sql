-- prune: removes records whose time is over, a bounded number at a time: receipts, then whole records by outcome, with their
-- attempts and keys (internal/finish.sql), then old rows of the ledger and old records of fired instants.
-- Takes: :queue, :outcome, :before (the latest instant that is over), :limit; queues takes nothing.
-- Returns: ids to forget; refused, schedule_runs: how many rows it removed.
-- Raises: nothing
-- Transaction: its own
-- Writes: finished_job, attempt, enqueue_key, refused, schedule_run
-- Locks: the database for writing
-- Rules: P7, P8, S7, K5

-- statement: queues
WITH RECURSIVE names (name) AS (
    SELECT min(queue) FROM turno_finished_job
    UNION ALL
    SELECT (SELECT min(queue) FROM turno_finished_job WHERE queue > name) FROM names WHERE name IS NOT NULL
)
SELECT name FROM names WHERE name IS NOT NULL;

-- statement: receipts
SELECT id FROM turno_finished_job
WHERE queue = :queue AND payload IS NULL AND finished_at <= :before
ORDER BY finished_at, id
LIMIT :limit;

-- statement: records
SELECT id FROM turno_finished_job
WHERE queue = :queue AND outcome = :outcome AND finished_at <= :before AND payload IS NOT NULL
ORDER BY finished_at, id
LIMIT :limit;

-- statement: refused
DELETE FROM turno_refused
WHERE id IN (SELECT old.id FROM turno_refused AS old WHERE old.last_at <= :before ORDER BY old.last_at LIMIT :limit);

-- statement: schedule_runs
DELETE FROM turno_schedule_run
WHERE (schedule, instant) IN (SELECT old.schedule, old.instant FROM turno_schedule_run AS old
                              WHERE old.fired_at <= :before ORDER BY old.fired_at LIMIT :limit);
