-- jobs: a page of ids of one state, newest id first; each row is then read by job.find in the same snapshot. It looks at the newest
-- 10000 jobs (waiting, ended, trouble); if those do not fill the page it asks how far it came (*_stop), and looks at all of the state,
-- or of the queue's state, if those are at most 10000 (few_*, once a queue of stats.queues).
-- Takes: :state (not for running), :queue, :kind (NULL: any; few_*: the queue), :before (an id), :limit.
-- Returns: ids, newest first; *_stop: the last id that was looked at, if there were 10000; few_*: ids and kinds in no order.
-- Raises: nothing
-- Transaction: any; one snapshot
-- Writes: nothing
-- Locks: nothing
-- Rules: V2, V6

-- statement: waiting
SELECT id FROM (SELECT id, state, queue, kind FROM turno_job NOT INDEXED WHERE id < :before ORDER BY id DESC LIMIT 10000)
WHERE state = :state AND (:queue IS NULL OR queue = :queue) AND (:kind IS NULL OR kind = :kind)
LIMIT :limit;

-- statement: waiting_stop
SELECT id FROM turno_job NOT INDEXED WHERE id < :before ORDER BY id DESC LIMIT 1 OFFSET 9999;

-- statement: ended
SELECT id FROM (SELECT id, outcome, queue, kind FROM turno_finished_job NOT INDEXED WHERE id < :before ORDER BY id DESC LIMIT 10000)
WHERE outcome = :state AND (:queue IS NULL OR queue = :queue) AND (:kind IS NULL OR kind = :kind)
LIMIT :limit;

-- statement: ended_stop
SELECT id FROM turno_finished_job NOT INDEXED WHERE id < :before ORDER BY id DESC LIMIT 1 OFFSET 9999;

-- statement: trouble
SELECT id FROM (SELECT id, queue, kind FROM turno_finished_job INDEXED BY turno_finished_job_trouble
                WHERE outcome = :state AND outcome <> 'succeeded' AND id < :before ORDER BY id DESC LIMIT 10000)
WHERE (:queue IS NULL OR queue = :queue) AND (:kind IS NULL OR kind = :kind)
LIMIT :limit;

-- statement: trouble_stop
SELECT id FROM turno_finished_job INDEXED BY turno_finished_job_trouble
WHERE outcome = :state AND outcome <> 'succeeded' AND id < :before ORDER BY id DESC LIMIT 1 OFFSET 9999;

-- statement: few_ready
SELECT id, kind FROM turno_job INDEXED BY turno_job_ready WHERE queue = :queue AND state = 'ready' LIMIT :limit;

-- statement: few_scheduled
SELECT id, kind FROM turno_job INDEXED BY turno_job_scheduled WHERE queue = :queue AND state = 'scheduled' LIMIT :limit;

-- statement: few_running
SELECT id, kind, queue FROM turno_job INDEXED BY turno_job_lease WHERE state = 'running' LIMIT :limit;

-- statement: few_ended
SELECT id, kind FROM turno_finished_job INDEXED BY turno_finished_job_by_queue WHERE queue = :queue AND outcome = :state LIMIT :limit;
