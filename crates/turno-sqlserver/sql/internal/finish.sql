-- finish: moves a job from the hot table to the history, as the queue's retention says.
-- Takes: the job, whose row the caller has locked; the outcome; the verb, result, error and charge of the last attempt; its
--        token's hash; now.
-- Returns: nothing.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: job, finished_job; attempt and enqueue_key if nothing is kept
-- Locks: the job's row, already held
-- Rules: F7, P7, P8
CREATE OR ALTER PROCEDURE turno.finish
    @job bigint, @outcome varchar(9), @verb varchar(8), @result nvarchar(max), @error nvarchar(max), @error_bytes bigint, @charged bit,
    @token_hash binary(32), @now datetime2(6)
AS
BEGIN
    DECLARE @keep bit, @receipt bit, @ids nvarchar(30) = CONCAT(N'[', @job, N']');
    SELECT @keep = IIF(CASE @outcome WHEN 'succeeded' THEN q.keep_succeeded_ms WHEN 'dead' THEN q.keep_dead_ms
                                     ELSE q.keep_cancelled_ms END <> 0, 1, 0),
           @receipt = IIF(q.receipts_ms <> 0, 1, 0)
    FROM turno.unfinished_job j WITH (ROWLOCK, FORCESEEK) CROSS APPLY turno.queue_settings(j.queue) q
    WHERE j.id = @job;
    IF @keep = 1 OR @receipt = 1
    BEGIN
        EXEC turno.cut_error @error OUTPUT, @error_bytes OUTPUT;
        INSERT INTO turno.finished_job (id, queue, kind, outcome, payload, result, priority, attempt, failures, max_attempts, max_run_ms,
            unique_key, operation_id, verb, token_hash, charged, worker, claimed_at, started_at, run_at, first_due_at, created_at,
            finished_at, error, error_bytes, traceparent)
        SELECT j.id, j.queue, j.kind, @outcome, IIF(@keep = 1, j.payload, NULL), IIF(@keep = 1, @result, NULL), j.priority, j.attempt,
               j.failures + @charged, j.max_attempts, j.max_run_ms, j.unique_key, j.operation_id, @verb, @token_hash, @charged,
               j.worker, j.claimed_at, j.started_at, j.run_at, j.first_due_at, j.created_at, @now, @error, @error_bytes,
               j.traceparent
        FROM turno.unfinished_job j WITH (ROWLOCK, FORCESEEK) WHERE j.id = @job;
    END;
    DELETE FROM turno.unfinished_job WITH (ROWLOCK) WHERE id = @job;
    IF @keep = 0 AND @receipt = 0
        EXEC turno.forget_rows @ids;
END;
