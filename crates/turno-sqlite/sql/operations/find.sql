-- find: the ids of jobs with a key; each row is then read by job.find in the same snapshot. ended finds by the unique key in all
-- queues, of_queue by both kinds of keys once a queue of stats.queues.
-- Takes: :key, :queue (ended: NULL is any), :before (an id), :limit.
-- Returns: ids, newest first; ended_stop: the last id that was looked at, if there were 10000.
-- Raises: nothing
-- Transaction: any; one snapshot
-- Writes: nothing
-- Locks: nothing
-- Rules: V2, V6, V7

-- statement: ended
SELECT id FROM (SELECT id, queue FROM turno_finished_job INDEXED BY turno_finished_job_key
                WHERE unique_key = :key AND id < :before ORDER BY id DESC LIMIT 10000)
WHERE :queue IS NULL OR queue = :queue
LIMIT :limit;

-- statement: ended_stop
SELECT id FROM turno_finished_job INDEXED BY turno_finished_job_key
WHERE unique_key = :key AND id < :before ORDER BY id DESC LIMIT 1 OFFSET 9999;

-- statement: of_queue
SELECT job_id FROM turno_enqueue_key WHERE queue = :queue AND key = :key AND job_id < :before
UNION ALL
SELECT id FROM turno_job WHERE queue = :queue AND unique_key = :key AND id < :before;
