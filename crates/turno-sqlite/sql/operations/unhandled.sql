-- unhandled: the kinds of one queue whose jobs were given back at least three times in a row, while none of the queue's last 1000
-- successes is of that kind: most often no handler knows them.
-- Takes: :queue.
-- Returns: kind, how many of the first 10000 scheduled jobs of the queue, one of them; the most frequent kinds first, at most 100.
-- Raises: nothing
-- Transaction: any; one snapshot
-- Writes: nothing
-- Locks: nothing
-- Rules: V4

-- statement: kinds
SELECT s.kind, count(*), min(s.id)
FROM (SELECT id, kind, attempt FROM turno_job WHERE queue = :queue AND state = 'scheduled' ORDER BY run_at, id LIMIT 10000) AS s
WHERE s.attempt >= 3
  AND 3 = (SELECT count(*) FROM turno_attempt AS a
           WHERE a.job_id = s.id AND a.attempt > s.attempt - 3 AND a.verb = 'release')
  AND s.kind NOT IN (SELECT r.kind FROM (SELECT kind FROM turno_finished_job WHERE queue = :queue AND outcome = 'succeeded'
                                          ORDER BY finished_at DESC, id DESC LIMIT 1000) AS r)
GROUP BY s.kind ORDER BY 2 DESC, 1 LIMIT 100;
