-- token_jobs: the running jobs of one token.
-- Takes: the token; the queues, in whose order the jobs come (NULL: by rank alone).
-- Returns: jobs as claimed_jobs does; next_due_in_ms is NULL.
-- Raises: nothing
-- Transaction: any, at READ COMMITTED
-- Writes: nothing
-- Locks: none that lasts: first entries of job_token, then rows, never one while it waits for the other
-- Rules: C5
CREATE OR ALTER PROCEDURE turno.token_jobs @token uniqueidentifier, @queues nvarchar(max)
AS
BEGIN
    DECLARE @ids TABLE (id bigint NOT NULL PRIMARY KEY);
    DECLARE @order TABLE (queue varbinary(400) NOT NULL PRIMARY KEY, place int NOT NULL);
    INSERT INTO @order (queue, place)
    SELECT n.queue, MIN(n.place) FROM turno.names_of(COALESCE(@queues, N'[]')) n GROUP BY n.queue;
    INSERT INTO @ids (id) SELECT j.id FROM turno.unfinished_job j WITH (INDEX(job_token), FORCESEEK) WHERE j.token = @token AND j.state = 'running';
    SELECT j.id, CONVERT(nvarchar(200), j.queue) AS queue, CONVERT(nvarchar(200), j.kind) AS kind, j.payload, j.priority, j.attempt, j.token,
           j.failures, j.max_attempts, j.operation_id, j.run_at, j.created_at, j.claimed_at, j.lease_until, j.max_run_ms, j.rank,
           j.traceparent, CONVERT(bigint, NULL) AS next_due_in_ms
    FROM @ids i
    JOIN turno.unfinished_job j WITH (ROWLOCK, FORCESEEK) ON j.id = i.id AND j.token = @token
    LEFT JOIN @order o ON o.queue = j.queue
    ORDER BY o.place, j.rank, j.id;
END;
