-- claimed_jobs: what a claim answers.
-- Takes: the token; what two passes of claim_take took; how long until the next job is due, or NULL.
-- Returns: jobs in the order of the claim; if there are none and the next due time is known, one row with that alone.
-- Raises: nothing
-- Transaction: any, at READ COMMITTED; after the commit of the claim, so that a slow reader holds no lock
-- Writes: nothing
-- Locks: none that lasts
-- Rules: C3, C7
CREATE OR ALTER PROCEDURE turno.claimed_jobs
    @token uniqueidentifier, @first nvarchar(max), @second nvarchar(max), @next_due_in_ms bigint
AS
BEGIN
    DECLARE @ids TABLE (turn int NOT NULL PRIMARY KEY, id bigint NOT NULL);
    INSERT INTO @ids (turn, id)
    SELECT t.turn, t.id
    FROM (SELECT CONVERT(int, a.[key]) AS turn, CONVERT(bigint, JSON_VALUE(a.[value], '$.id')) AS id FROM OPENJSON(@first) a
          UNION ALL
          SELECT CONVERT(int, a.[key]) + 1000, CONVERT(bigint, JSON_VALUE(a.[value], '$.id')) FROM OPENJSON(@second) a) t;
    SELECT j.id, CONVERT(nvarchar(200), j.queue) AS queue, CONVERT(nvarchar(200), j.kind) AS kind, j.payload, j.priority, j.attempt, j.token,
           j.failures, j.max_attempts, j.operation_id, j.run_at, j.created_at, j.claimed_at, j.lease_until, j.max_run_ms, j.rank,
           j.traceparent, @next_due_in_ms AS next_due_in_ms
    FROM (SELECT 1 AS one) always
    LEFT JOIN (@ids i JOIN turno.unfinished_job j WITH (ROWLOCK, FORCESEEK) ON j.id = i.id AND j.token = @token) ON 1 = 1
    WHERE j.id IS NOT NULL OR @next_due_in_ms IS NOT NULL
    ORDER BY i.turn;
END;
