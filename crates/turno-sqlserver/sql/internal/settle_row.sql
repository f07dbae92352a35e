-- settle_row: ends one attempt, or answers why not.
-- Takes: the verb; the proof; its result or error and the length of that before it was cut; the delay in ms; who sends it; now.
-- Returns: status done, already, refused or gone; the job's state; when it is due again; the reason of a refusal.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: job, attempt, finished_job, refused; enqueue_key if nothing is kept
-- Locks: the job's row
-- Rules: S1, S2, S3, S4, S6, O2, O5
CREATE OR ALTER PROCEDURE turno.settle_row
    @verb varchar(8), @job bigint, @attempt bigint, @token uniqueidentifier, @detail nvarchar(max), @bytes bigint, @delay_ms bigint,
    @worker varbinary(400), @now datetime2(6), @status varchar(8) OUTPUT, @state varchar(9) OUTPUT, @run_at datetime2(6) OUTPUT,
    @reason nvarchar(1000) OUTPUT
AS
BEGIN
    DECLARE @hash binary(32) = HASHBYTES('SHA2_256', CONVERT(binary(16), @token)), @found bigint;
    SELECT @status = NULL, @state = NULL, @run_at = NULL, @reason = NULL;
    SELECT @found = j.id FROM turno.unfinished_job j WITH (UPDLOCK, ROWLOCK, FORCESEEK)
    WHERE j.id = @job AND j.attempt = @attempt AND j.token = @token;
    IF @found IS NULL
        EXEC turno.settle_miss @job, @attempt, @token, @verb, @detail, @worker, @status OUTPUT, @state OUTPUT, @run_at OUTPUT,
            @reason OUTPUT;
    ELSE IF @verb = 'complete'
    BEGIN
        EXEC turno.finish @job, 'succeeded', 'complete', @detail, NULL, NULL, 0, @hash, @now;
        SELECT @status = 'done', @state = 'succeeded';
    END
    ELSE
    BEGIN
        SET @detail = IIF(@verb = 'fail', COALESCE(@detail, N''), NULL);
        EXEC turno.end_attempt @job, @verb, @detail, @bytes, @delay_ms, @hash, @now, @state OUTPUT, @run_at OUTPUT;
        SET @status = 'done';
    END;
END;
