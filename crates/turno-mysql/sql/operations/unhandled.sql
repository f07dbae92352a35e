-- unhandled: the kinds of one queue whose jobs were given back at least three times in a row, while none of the queue's last 1000
-- successes is of that kind: most often no handler knows them.
-- Takes: the queue.
-- Returns: kind, how many of the first 10000 scheduled jobs of the queue, one of them; the most frequent kinds first, at most 100.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V4
CREATE PROCEDURE turno.unhandled(IN p_queue VARBINARY(200))
BEGIN
    SELECT CONVERT(s.kind USING utf8mb4) AS kind, COUNT(*) AS jobs, MIN(s.id) AS example
    FROM (SELECT j.id, j.kind, j.attempt FROM turno.job j FORCE INDEX (job_place)
          WHERE j.queue = p_queue AND j.state = 'scheduled' ORDER BY j.place, j.id LIMIT 10000) s
    WHERE s.attempt >= 3
      AND 3 = (SELECT COUNT(*) FROM turno.attempt a
               WHERE a.job_id = s.id AND a.attempt > s.attempt - 3 AND a.verb = 'release')
      AND NOT EXISTS (SELECT 1 FROM (SELECT f.kind FROM turno.finished_job f FORCE INDEX (finished_job_by_queue)
                                     WHERE f.queue = p_queue AND f.outcome = 'succeeded'
                                     ORDER BY f.finished_at DESC, f.id DESC LIMIT 1000) r WHERE r.kind = s.kind)
    GROUP BY s.kind ORDER BY 2 DESC, 1 LIMIT 100;
END
