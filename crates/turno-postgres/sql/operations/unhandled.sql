-- unhandled: the kinds of one queue whose jobs were given back at least three times in a row, while none of the queue's last 1000
-- successes is of that kind: most often no handler knows them.
-- Takes: the queue.
-- Returns: kind, how many of the first 10000 scheduled jobs of the queue, one of them; the most frequent kinds first, at most 100.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V4
CREATE OR REPLACE FUNCTION turno.unhandled(p_queue text) RETURNS TABLE (kind text, jobs bigint, example bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
    WITH recent AS MATERIALIZED (
        SELECT DISTINCT r.kind
        FROM (SELECT f.kind FROM turno.finished_job f
              WHERE hashtextextended(f.queue, ascii(f.outcome)) = hashtextextended(p_queue, ascii('succeeded'))
                AND f.queue = p_queue AND f.outcome = 'succeeded'
              ORDER BY f.finished_at DESC, f.id DESC LIMIT 1000) r)
    SELECT s.kind, count(*), min(s.id)
    FROM (SELECT j.id, j.kind, j.attempt FROM turno.job j WHERE j.queue = p_queue AND j.state = 'scheduled'
          ORDER BY j.run_at, j.id LIMIT 10000) s
    WHERE s.attempt >= 3
      AND 3 = (SELECT count(*) FROM turno.attempt a
               WHERE a.job_id = s.id AND a.attempt > s.attempt - 3 AND a.verb = 'release')
      AND NOT EXISTS (SELECT FROM recent r WHERE r.kind = s.kind)
    GROUP BY s.kind ORDER BY 2 DESC, 1 LIMIT 100
$$;
