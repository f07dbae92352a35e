-- stats: the state of each queue, cheap at any size: every count stops at 10,000 and reads one index.
-- Takes: :queue, :now, :since (the beginning of the window). queues takes nothing.
-- Returns: queues: their names; the others as named.
-- Raises: nothing
-- Transaction: any; one snapshot
-- Writes: nothing
-- Locks: nothing
-- Rules: V1
-- DIFFERS: running jobs are counted in one pass over all of them, since their index is by lease and not by queue: they are few.

-- statement: queues
WITH RECURSIVE settings (name) AS (
    SELECT min(queue) FROM turno_queue WHERE queue > ''
    UNION ALL SELECT (SELECT min(queue) FROM turno_queue WHERE queue > name) FROM settings WHERE name IS NOT NULL
), ready (name) AS (
    SELECT min(queue) FROM turno_job WHERE state = 'ready'
    UNION ALL SELECT (SELECT min(queue) FROM turno_job WHERE state = 'ready' AND queue > name) FROM ready WHERE name IS NOT NULL
), scheduled (name) AS (
    SELECT min(queue) FROM turno_job WHERE state = 'scheduled'
    UNION ALL SELECT (SELECT min(queue) FROM turno_job WHERE state = 'scheduled' AND queue > name) FROM scheduled
    WHERE name IS NOT NULL
), finished (name) AS (
    SELECT min(queue) FROM turno_finished_job
    UNION ALL SELECT (SELECT min(queue) FROM turno_finished_job WHERE queue > name) FROM finished WHERE name IS NOT NULL
)
SELECT name FROM settings WHERE name IS NOT NULL
UNION SELECT name FROM ready WHERE name IS NOT NULL
UNION SELECT name FROM scheduled WHERE name IS NOT NULL
UNION SELECT queue FROM turno_job WHERE state = 'running'
UNION SELECT name FROM finished WHERE name IS NOT NULL
ORDER BY 1;

-- statement: running
SELECT queue, min(count(*), 10000), min(sum(lease_until <= :now), 10000) FROM turno_job WHERE state = 'running' GROUP BY queue;

-- statement: counts
SELECT
    (SELECT count(*) FROM (SELECT 1 FROM turno_job WHERE queue = :queue AND state = 'ready' LIMIT 10000)),
    (SELECT count(*) FROM (SELECT 1 FROM turno_job WHERE queue = :queue AND state = 'scheduled' LIMIT 10000)),
    (SELECT count(*) FROM (SELECT 1 FROM turno_finished_job
                           WHERE queue = :queue AND outcome = 'succeeded' AND finished_at >= :since LIMIT 10000)),
    (SELECT count(*) FROM (SELECT 1 FROM turno_finished_job
                           WHERE queue = :queue AND outcome = 'dead' AND finished_at >= :since LIMIT 10000)),
    (SELECT count(*) FROM (SELECT 1 FROM turno_finished_job
                           WHERE queue = :queue AND outcome = 'cancelled' AND finished_at >= :since LIMIT 10000)),
    (SELECT count(*) FROM (SELECT 1 FROM turno_attempt WHERE queue = :queue AND ended_at >= :since AND verb IN ('fail', 'expire')
                           AND state IN ('scheduled', 'ready') LIMIT 10000)),
    (SELECT count(*) FROM (SELECT 1 FROM turno_refused WHERE queue = :queue AND last_at >= :since LIMIT 10000));

-- statement: oldest_scheduled
SELECT run_at FROM turno_job WHERE queue = :queue AND state = 'scheduled' AND run_at <= :now ORDER BY run_at LIMIT 1;

-- statement: oldest_ready_strict
-- The first row of each priority is the oldest one of it; there are at most 2,001 priorities.
WITH RECURSIVE first_of (rank, run_at) AS (
    SELECT * FROM (SELECT rank, run_at FROM turno_job WHERE queue = :queue AND state = 'ready' ORDER BY rank LIMIT 1)
    UNION ALL
    SELECT j.rank, j.run_at
    FROM first_of AS f, turno_job AS j
    WHERE j.id = (SELECT n.id FROM turno_job AS n
                  WHERE n.queue = :queue AND n.state = 'ready'
                    AND n.rank >= ((f.rank >> 52) + 1) * 4503599627370496
                  ORDER BY n.rank LIMIT 1)
)
SELECT min(run_at) FROM first_of;

-- statement: oldest_ready_aging
SELECT min(run_at) FROM (SELECT run_at FROM turno_job WHERE queue = :queue AND state = 'ready' ORDER BY rank LIMIT 10000);

-- statement: times
-- From due to claimed, and from first due to ended, of the latest jobs of one outcome.
SELECT CASE WHEN verb IS NOT NULL THEN claimed_at - run_at END, finished_at - first_due_at
FROM turno_finished_job
WHERE queue = :queue AND outcome = :outcome AND finished_at >= :since
ORDER BY finished_at DESC
LIMIT 1000;
