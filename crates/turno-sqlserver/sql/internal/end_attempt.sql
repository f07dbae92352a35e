-- end_attempt: the one place that decides what becomes of a job whose attempt ended without success.
-- Takes: the job, whose row the caller has locked; the verb (NULL: a waiting job is cancelled); the error and its length before it was
--        cut; the retry delay in ms (NULL: by policy, or for release the old due time; -1: never); the proof's token hash (NULL: no
--        proof was shown); now.
-- Returns: the job's state and due time afterwards.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: job, then finished_job or attempt
-- Locks: the job's row, already held
-- Rules: S1, S2, F1, F2, F3, F5, F7, R2, P1, P2
CREATE OR ALTER PROCEDURE turno.end_attempt
    @job bigint, @verb varchar(8), @error nvarchar(max), @error_bytes bigint, @delay_ms bigint, @token_hash binary(32),
    @now datetime2(6), @state varchar(9) OUTPUT, @run_at datetime2(6) OUTPUT
AS
BEGIN
    DECLARE @attempt bigint, @started_at datetime2(6), @cancel_at datetime2(6), @failures int, @max_attempts int, @expiries int,
        @unstarted bit, @charged bit, @step bigint, @base bigint, @cap bigint;
    SELECT @attempt = j.attempt, @started_at = j.started_at, @cancel_at = j.cancel_requested_at, @failures = j.failures,
           @max_attempts = j.max_attempts, @expiries = j.unstarted_expiries, @run_at = j.run_at, @step = q.step,
           @base = q.retry_base_ms, @cap = q.retry_cap_ms
    FROM turno.unfinished_job j WITH (UPDLOCK, ROWLOCK, FORCESEEK) CROSS APPLY turno.queue_settings(j.queue) q
    WHERE j.id = @job;
    SET @unstarted = IIF(@verb = 'expire' AND @started_at IS NULL AND @expiries < 3, 1, 0);
    SET @charged = IIF(@verb IN ('fail', 'expire') AND @unstarted = 0, 1, 0);
    SET @failures += @charged;
    SET @state = CASE
        WHEN @verb IS NULL OR @verb = 'revoke' OR @cancel_at IS NOT NULL THEN 'cancelled'
        WHEN @charged = 1 AND (@delay_ms = -1 OR @failures >= @max_attempts) OR @attempt >= 1000000 THEN 'dead' END;
    IF @state IS NOT NULL
    BEGIN
        EXEC turno.finish @job, @state, @verb, NULL, @error, @error_bytes, @charged, @token_hash, @now;
        SET @run_at = NULL;
        RETURN;
    END;
    IF @delay_ms IS NOT NULL
        SET @run_at = DATEADD(millisecond, @delay_ms % 1000, DATEADD(second, @delay_ms / 1000, @now));
    ELSE IF @charged = 1
        EXEC turno.retry_at @failures, @base, @cap, @now, @run_at OUTPUT;
    SET @state = IIF(@run_at <= @now, 'ready', 'scheduled');
    EXEC turno.cut_error @error OUTPUT, @error_bytes OUTPUT;
    INSERT INTO turno.attempt (job_id, attempt, queue, verb, token_hash, worker, claimed_at, started_at, ended_at, charged, error,
        error_bytes, state, run_at)
    SELECT j.id, j.attempt, j.queue, @verb, @token_hash, j.worker, j.claimed_at, j.started_at, @now, @charged, @error, @error_bytes,
           @state, @run_at
    FROM turno.unfinished_job j WITH (ROWLOCK, FORCESEEK) WHERE j.id = @job;
    UPDATE turno.unfinished_job WITH (ROWLOCK)
    SET state = @state, run_at = @run_at, failures = @failures,
        rank = IIF(@state = 'ready', DATEDIFF_BIG(microsecond, '1970-01-01', @run_at) + priority * @step, NULL),
        unstarted_expiries = unstarted_expiries + @unstarted, token = NULL, worker = NULL, claimed_at = NULL, started_at = NULL,
        lease_until = NULL, run_until = NULL
    WHERE id = @job;
    -- The first and the last hundred attempts are kept.
    IF @attempt > 200
        DELETE FROM turno.attempt WITH (ROWLOCK) WHERE job_id = @job AND attempt = @attempt - 100;
END;
