-- enqueue_rows: inserts jobs, all or none, and answers in the order of the input.
-- Takes: a JSON array of at most 1000 objects with queue, kind and payload (a string that holds JSON text), and if wanted run_at,
--        priority, max_attempts, max_run_ms, unique_key, idempotency_key, traceparent; whether priorities are obeyed.
-- Returns: per row its place (from 1), the job's id, whether this call created it.
-- Raises: TU001 beyond a limit with the row's number, TU002; 53107
-- Transaction: joins the caller's, or owns its own
-- Writes: enqueue_key, job
-- Locks: idempotency keys in key order, then unique keys in key order: two bulk calls cannot deadlock
-- Rules: E1, E3, E4, E5, E7, E9, E11, E12
CREATE OR ALTER PROCEDURE turno.enqueue_rows @jobs nvarchar(max), @prioritized bit
AS
BEGIN
    DECLARE @now datetime2(6) = SYSUTCDATETIME(), @own bit = IIF(@@TRANCOUNT = 0, 1, 0), @bad nvarchar(400), @keyed nvarchar(max);
    DECLARE @answers TABLE (place int NOT NULL PRIMARY KEY, id bigint NOT NULL, created bit NOT NULL);
    IF @own = 0
        EXEC turno.join_check N'enqueue_many';
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    EXEC turno.list_check @jobs, N'one call enqueues', 1, 1000, 5;
    BEGIN TRY
        IF @own = 1
            BEGIN TRANSACTION;
        SELECT TOP (1) @bad = CONCAT(N'row ', r.place, N': ', c.bad)
        FROM turno.enqueue_shape(@jobs) r
        CROSS APPLY turno.enqueue_check(r.queue, r.kind, IIF(r.payload IS NULL, 0, 1), IIF(@prioritized = 1, r.priority, NULL), r.run_at,
            r.max_attempts, r.max_run_ms, r.unique_key, r.idempotency_key, @now) c
        WHERE c.bad IS NOT NULL
        ORDER BY r.place;
        IF @bad IS NOT NULL
            THROW 53101, @bad, 1;
        EXEC turno.enqueue_keyed @jobs, @prioritized, @now, @keyed OUTPUT;
        INSERT INTO @answers (place, id, created)
        SELECT r.place, NEXT VALUE FOR turno.job_id OVER (ORDER BY r.place), 1
        FROM turno.enqueue_shape(@jobs) r WHERE r.unique_key IS NULL AND r.idempotency_key IS NULL;
        INSERT INTO turno.unfinished_job (id, queue, kind, payload, priority, state, rank, run_at, first_due_at, created_at, max_attempts, max_run_ms,
            traceparent)
        SELECT a.id, CONVERT(varbinary(400), r.queue), CONVERT(varbinary(400), r.kind), r.payload,
               IIF(@prioritized = 1, COALESCE(r.priority, 0), 0), c.state, c.rank, c.due_at, c.due_at, @now, c.max_attempts, c.max_run_ms,
               turno.traceparent_kept(r.traceparent)
        FROM turno.enqueue_shape(@jobs) r
        JOIN @answers a ON a.place = r.place
        CROSS APPLY turno.enqueue_check(r.queue, r.kind, 1, IIF(@prioritized = 1, r.priority, NULL), r.run_at, r.max_attempts,
            r.max_run_ms, NULL, NULL, @now) c;
        IF @own = 1
            COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @own = 1 AND @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END CATCH;
    SELECT t.place, t.id, t.created
    FROM (SELECT a.place, a.id, a.created FROM @answers a
          UNION ALL SELECT k.place, k.id, k.created
          FROM OPENJSON(@keyed) WITH (place int '$.place', id bigint '$.id', created bit '$.created') k) t
    ORDER BY t.place;
END;
