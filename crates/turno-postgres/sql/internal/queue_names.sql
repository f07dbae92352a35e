-- queue_names: every queue that has settings or rows, found by leaps over the indexes, not by reading the rows.
-- Takes: nothing. Returns: names in order.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V1
CREATE OR REPLACE FUNCTION turno.queue_names() RETURNS TABLE (queue text)
LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
    WITH RECURSIVE
    ready AS (
        (SELECT j.queue FROM turno.job j WHERE j.state = 'ready' ORDER BY j.queue LIMIT 1)
        UNION ALL
        SELECT (SELECT j.queue FROM turno.job j WHERE j.state = 'ready' AND j.queue > r.queue ORDER BY j.queue LIMIT 1)
        FROM ready r WHERE r.queue IS NOT NULL),
    scheduled AS (
        (SELECT j.queue FROM turno.job j WHERE j.state = 'scheduled' ORDER BY j.queue LIMIT 1)
        UNION ALL
        SELECT (SELECT j.queue FROM turno.job j WHERE j.state = 'scheduled' AND j.queue > s.queue ORDER BY j.queue LIMIT 1)
        FROM scheduled s WHERE s.queue IS NOT NULL),
    -- By the number that stands for queue and outcome in the index of the history.
    finished AS (
        (SELECT f.queue, hashtextextended(f.queue, ascii(f.outcome)) AS place FROM turno.finished_job f ORDER BY 2 LIMIT 1)
        UNION ALL
        SELECT n.queue, n.place
        FROM finished d CROSS JOIN LATERAL (
            SELECT f.queue, hashtextextended(f.queue, ascii(f.outcome)) AS place FROM turno.finished_job f
            WHERE hashtextextended(f.queue, ascii(f.outcome)) > d.place ORDER BY 2 LIMIT 1) n),
    running AS (
        SELECT DISTINCT t.queue FROM (SELECT j.queue FROM turno.job j WHERE j.state = 'running' LIMIT 100000) t)
    SELECT n.queue FROM (
        SELECT r.queue FROM ready r UNION SELECT s.queue FROM scheduled s UNION SELECT f.queue FROM finished f
        UNION SELECT r.queue FROM running r UNION SELECT q.queue FROM turno.queue q) n
    WHERE n.queue <> '' ORDER BY n.queue
$$;
