-- job_records: everything known about unfinished and ended jobs, in one shape and without tokens.
-- Takes: ids as a JSON array; where a search stopped, or NULL. Returns: a row for each that exists, newest id first, and a last row
--        that has nothing but an id for the place where the search stopped.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none that lasts
-- Rules: O6
CREATE OR ALTER PROCEDURE turno.job_records @ids nvarchar(max), @stop bigint
AS
BEGIN
    DECLARE @wanted TABLE (id bigint NOT NULL PRIMARY KEY);
    INSERT INTO @wanted (id) SELECT DISTINCT CONVERT(bigint, a.[value]) FROM OPENJSON(@ids) a;
    -- The hot table is read first, so that a job which ends between the two looks is found by the second.
    SELECT t.id, CONVERT(nvarchar(200), t.queue) AS queue, CONVERT(nvarchar(200), t.kind) AS kind, t.state, t.payload, t.priority, t.attempt,
           t.failures, t.max_attempts, t.max_run_ms, t.operation_id, CONVERT(nvarchar(512), t.unique_key) AS unique_key, t.created_at,
           t.run_at, CONVERT(nvarchar(200), t.worker) AS worker, t.claimed_at, t.lease_until, t.cancel_requested_at, t.finished_at, t.result,
           t.error, t.traceparent
    FROM (
        SELECT j.id, j.queue, j.kind, j.state, j.payload, j.priority, j.attempt, j.failures, j.max_attempts, j.max_run_ms, j.operation_id,
               j.unique_key, j.created_at, j.run_at, COALESCE(j.worker, l.worker) AS worker, COALESCE(j.claimed_at, l.claimed_at) AS claimed_at,
               j.lease_until, j.cancel_requested_at, CONVERT(datetime2(6), NULL) AS finished_at, CONVERT(nvarchar(max), NULL) AS result, l.error,
               j.traceparent
        FROM @wanted w INNER LOOP JOIN turno.unfinished_job j WITH (FORCESEEK) ON j.id = w.id
        OUTER APPLY (SELECT TOP (1) a.worker, a.claimed_at, a.error FROM turno.attempt a WITH (FORCESEEK)
                     WHERE a.job_id = j.id ORDER BY a.attempt DESC) l
        UNION ALL
        SELECT f.id, f.queue, f.kind, f.outcome, f.payload, f.priority, f.attempt, f.failures, f.max_attempts, f.max_run_ms, f.operation_id,
               f.unique_key, f.created_at, f.run_at, f.worker, f.claimed_at, NULL, NULL, f.finished_at, f.result, f.error,
               f.traceparent
        FROM @wanted w INNER LOOP JOIN turno.finished_job f WITH (FORCESEEK) ON f.id = w.id
        UNION ALL
        SELECT @stop, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
               NULL
        WHERE @stop IS NOT NULL) t
    ORDER BY IIF(t.state IS NULL, 1, 0), t.id DESC;
END;
