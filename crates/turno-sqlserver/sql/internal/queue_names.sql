-- queue_names: every queue that has settings or rows, found by leaps over the indexes, not by reading the rows.
-- Takes: nothing. Returns: names as they are stored.
-- Raises: nothing
-- Transaction: any, at READ COMMITTED
-- Writes: nothing
-- Locks: none that lasts; skips rows that somebody holds
-- Rules: V1
CREATE OR ALTER FUNCTION turno.queue_names() RETURNS @names TABLE (queue varbinary(400) NOT NULL PRIMARY KEY)
AS
BEGIN
    DECLARE @queue varbinary(400) = 0x;
    WHILE @queue IS NOT NULL
    BEGIN
        -- Jobs that run have left both of these indexes; they are few, and read below.
        SELECT @queue = (SELECT MIN(t.queue) FROM (
            SELECT MIN(j.queue) AS queue FROM turno.unfinished_job j WITH (READPAST, READCOMMITTEDLOCK, INDEX(job_ready), FORCESEEK)
            WHERE j.queue > @queue AND j.state = 'ready'
            UNION ALL SELECT MIN(j.queue) FROM turno.unfinished_job j WITH (READPAST, READCOMMITTEDLOCK, INDEX(job_due), FORCESEEK)
            WHERE j.queue > @queue AND j.state = 'scheduled'
            UNION ALL SELECT MIN(f.queue)
            FROM turno.finished_job f WITH (READPAST, READCOMMITTEDLOCK, INDEX(finished_job_by_queue), FORCESEEK) WHERE f.queue > @queue
            UNION ALL SELECT MIN(q.queue) FROM turno.queue q WHERE q.queue > @queue) t);
        IF @queue IS NOT NULL
            INSERT INTO @names (queue) VALUES (@queue);
    END;
    INSERT INTO @names (queue)
    SELECT DISTINCT r.queue
    FROM (SELECT TOP (10000) j.id FROM turno.unfinished_job j WITH (READPAST, READCOMMITTEDLOCK, INDEX(job_lease), FORCESEEK)
          WHERE j.state = 'running' AND j.lease_until > '1970-01-01' ORDER BY j.lease_until) l
    INNER LOOP JOIN turno.unfinished_job r WITH (READPAST, READCOMMITTEDLOCK, FORCESEEK) ON r.id = l.id
    WHERE NOT EXISTS (SELECT 1 FROM @names n WHERE n.queue = r.queue);
    RETURN;
END;
