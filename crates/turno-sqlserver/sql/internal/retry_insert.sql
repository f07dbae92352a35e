-- retry_insert: puts a dead job back into the hot table.
-- Takes: the job, whose record the caller has locked; now. Returns: the reason why it cannot be done, or NULL.
-- Raises: 53107
-- Transaction: joins the caller's
-- Writes: job
-- Locks: the unique key
-- Rules: P3
CREATE OR ALTER PROCEDURE turno.retry_insert @job bigint, @now datetime2(6), @bad nvarchar(200) OUTPUT
AS
BEGIN
    DECLARE @queue varbinary(400), @key varbinary(1024), @step bigint, @holder bigint;
    SELECT @queue = f.queue, @key = f.unique_key, @step = q.step
    FROM turno.finished_job f WITH (ROWLOCK, FORCESEEK) CROSS APPLY turno.queue_settings(f.queue) q WHERE f.id = @job;
    IF @key IS NOT NULL
        EXEC turno.key_lock N'u', @queue, @key;
    INSERT INTO turno.unfinished_job (id, queue, kind, payload, priority, state, rank, run_at, first_due_at, created_at, attempt, max_attempts, max_run_ms,
        unique_key, operation_id, traceparent)
    SELECT f.id, f.queue, f.kind, f.payload, f.priority, 'ready', DATEDIFF_BIG(microsecond, '1970-01-01', @now) + f.priority * @step, @now,
           @now, f.created_at, f.attempt, f.max_attempts, f.max_run_ms, f.unique_key, f.operation_id, f.traceparent
    FROM turno.finished_job f WITH (ROWLOCK, FORCESEEK)
    WHERE f.id = @job
      AND NOT EXISTS (SELECT 1 FROM turno.unfinished_job j WITH (READCOMMITTEDLOCK, ROWLOCK, INDEX(job_unique))
                      WHERE j.queue = @queue AND j.unique_key = @key AND j.unique_key IS NOT NULL);
    IF @@ROWCOUNT = 0
    BEGIN
        SELECT @holder = j.id FROM turno.unfinished_job j WITH (READCOMMITTEDLOCK, ROWLOCK, INDEX(job_unique))
        WHERE j.queue = @queue AND j.unique_key = @key AND j.unique_key IS NOT NULL;
        SET @bad = CONCAT(N'job ', COALESCE(CONVERT(nvarchar(20), @holder), N'that has ended just now'), N' has its unique key');
    END;
END;
