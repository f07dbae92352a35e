-- jobs: a page of ids of one state, newest first; each row is then read by job.find in the same snapshot. One statement per kind of
-- state, so that each has the index that is small for it.
-- Takes: :state (not for running, succeeded), :queue, :kind (NULL: any), :before (an id), :limit.
-- Returns: ids, newest first.
-- Raises: nothing
-- Transaction: any; one snapshot
-- Writes: nothing
-- Locks: nothing
-- Rules: V2

-- statement: waiting
SELECT id FROM turno_job NOT INDEXED
WHERE id < :before AND state = :state AND (:queue IS NULL OR queue = :queue) AND (:kind IS NULL OR kind = :kind)
ORDER BY id DESC
LIMIT :limit;

-- statement: running
SELECT id FROM turno_job INDEXED BY turno_job_lease
WHERE id < :before AND state = 'running' AND (:queue IS NULL OR queue = :queue) AND (:kind IS NULL OR kind = :kind)
ORDER BY id DESC
LIMIT :limit;

-- statement: trouble
SELECT id FROM turno_finished_job
WHERE id < :before AND outcome = :state AND outcome <> 'succeeded' AND (:queue IS NULL OR queue = :queue)
  AND (:kind IS NULL OR kind = :kind)
ORDER BY id DESC
LIMIT :limit;

-- statement: succeeded
SELECT id FROM turno_finished_job NOT INDEXED
WHERE id < :before AND outcome = 'succeeded' AND (:queue IS NULL OR queue = :queue) AND (:kind IS NULL OR kind = :kind)
ORDER BY id DESC
LIMIT :limit;
