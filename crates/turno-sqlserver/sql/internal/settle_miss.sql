-- settle_miss: answers a settle that found no running job under its proof: a repeat, a theft, or a job long gone. Refusals go to
-- the ledger in the same transaction.
-- Takes: the proof, the verb, its result or error, who sent it.
-- Returns: status 'already', 'refused' or 'gone'; the job's state; when it is due again; the reason of a refusal.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: refused
-- Locks: one row of the ledger; waits for a transaction that is moving the job
-- Rules: S3, S4, S6, S7
CREATE OR ALTER PROCEDURE turno.settle_miss
    @job bigint, @attempt bigint, @token uniqueidentifier, @verb varchar(8), @detail nvarchar(max), @worker varbinary(400),
    @status varchar(8) OUTPUT, @state varchar(9) OUTPUT, @run_at datetime2(6) OUTPUT, @reason nvarchar(1000) OUTPUT
AS
BEGIN
    DECLARE @hash binary(32) = HASHBYTES('SHA2_256', CONVERT(binary(16), @token)), @ended_hash binary(32), @look int = 1;
    DECLARE @job_state varchar(9), @outcome varchar(9), @settled_as varchar(8), @ended_verb varchar(8), @job_attempt bigint,
        @ended_attempt bigint, @job_worker varbinary(400), @ended_worker varbinary(400), @job_queue varbinary(400),
        @ended_queue varbinary(400), @owner varbinary(400), @owner_attempt bigint, @queue varbinary(400);
    SELECT @status = NULL, @state = NULL, @run_at = NULL, @reason = NULL;
    -- First the hot table and then the history, which is the way that jobs move; and once more for one that a retry brought back.
    WHILE @look <= 2 AND @job_state IS NULL AND @outcome IS NULL
    BEGIN
        SELECT @job_state = j.state, @job_attempt = j.attempt, @job_worker = j.worker, @job_queue = j.queue
        FROM turno.unfinished_job j WITH (READCOMMITTEDLOCK, ROWLOCK, FORCESEEK) WHERE j.id = @job;
        SELECT @outcome = f.outcome, @ended_verb = f.verb, @ended_attempt = f.attempt, @ended_hash = f.token_hash, @ended_worker = f.worker,
               @ended_queue = f.queue
        FROM turno.finished_job f WITH (READCOMMITTEDLOCK, ROWLOCK, FORCESEEK) WHERE f.id = @job;
        SET @look += 1;
    END;
    SELECT @settled_as = a.verb, @state = a.state, @run_at = CASE WHEN a.state <> 'dead' THEN a.run_at END
    FROM turno.attempt a WITH (READCOMMITTEDLOCK, ROWLOCK, FORCESEEK) WHERE a.job_id = @job AND a.attempt = @attempt AND a.token_hash = @hash;
    IF @ended_attempt = @attempt AND @ended_hash = @hash
        SELECT @state = @outcome, @run_at = NULL, @settled_as = @ended_verb;
    IF @settled_as = @verb
    BEGIN
        SET @status = 'already';
        RETURN;
    END;
    SELECT @status = IIF(@job_state IS NULL AND @outcome IS NULL, 'gone', 'refused'), @reason = CASE
        WHEN @settled_as IS NOT NULL THEN CONCAT(N'already settled as ', @state, N' by ', @settled_as)
        WHEN @job_state = 'running' THEN CONCAT(N'the lease is lost: attempt ', @job_attempt, N' is running on ',
                                                CONVERT(nvarchar(200), @job_worker))
        WHEN @job_state IS NOT NULL THEN CONCAT(N'the lease is lost: the job is ', @job_state, N' after attempt ', @job_attempt)
        WHEN @outcome IS NOT NULL THEN CONCAT(N'the lease is lost: the job ended as ', @outcome, N' in attempt ', @ended_attempt)
        ELSE N'no record of the job is left' END;
    -- A refusal tells the job's state now; what was settled long ago is in the reason.
    SELECT @state = COALESCE(@job_state, @outcome), @run_at = NULL, @queue = COALESCE(@job_queue, @ended_queue),
           @owner = COALESCE(@job_worker, @ended_worker), @owner_attempt = COALESCE(@job_attempt, @ended_attempt);
    EXEC turno.ledger_add @job, @attempt, @verb, @detail, @worker, @reason, @queue, @state, @owner, @owner_attempt;
END;
