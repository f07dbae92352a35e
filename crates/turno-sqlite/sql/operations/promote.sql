-- promote: makes scheduled jobs ready whose time has come, first due first.
-- Takes: :queue, :limit, :now; queues lists the queues with scheduled jobs when the caller names none.
-- Returns: due: how many rows it changed.
-- Raises: nothing
-- Transaction: its own, or the claim's
-- Writes: job
-- Locks: the database for writing
-- Rules: C3, C9, H2

-- statement: queues
WITH RECURSIVE names (name) AS (
    SELECT min(queue) FROM turno_job WHERE state = 'scheduled'
    UNION ALL
    SELECT (SELECT min(queue) FROM turno_job WHERE state = 'scheduled' AND queue > name) FROM names WHERE name IS NOT NULL
)
SELECT name FROM names WHERE name IS NOT NULL;

-- statement: due
UPDATE turno_job
SET state = 'ready',
    rank = run_at + priority * (SELECT coalesce(aging_ms * 1000, 4503599627370496) FROM turno_queue
                                WHERE queue IN (:queue, '') ORDER BY queue DESC LIMIT 1)
WHERE id IN (SELECT due.id FROM turno_job AS due
             WHERE due.queue = :queue AND due.state = 'scheduled' AND due.run_at <= :now
             ORDER BY due.run_at, due.id
             LIMIT :limit);
