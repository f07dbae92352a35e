-- claim: gives up to @limit due jobs to a worker, each under a lease, best first.
-- Takes: queues in the order of service (a JSON array of names); the worker's label; the most jobs; the lease; a new token; how many
--        of the jobs start at once (NULL: all); per queue the rank where to begin, as a JSON array (NULL: the front).
-- Returns: the jobs that the token holds now. If there are none, one row whose id is NULL says in how many ms the next job of
--          these queues is due, and no row at all that nothing is scheduled.
-- Raises: TU001, TU002; 53107 if another claim with this token does not end
-- Transaction: owns its own, at READ COMMITTED whatever the session's level is
-- Writes: job, and what reap writes
-- Locks: an application lock of the token, then job rows in rank order; skips those that somebody holds
-- Rules: C1, C2, C3, C4, C5, C6, C7, C8, C10, F2, H3, P5
CREATE OR ALTER PROCEDURE turno.claim
    @queues nvarchar(max), @worker nvarchar(4000), @limit bigint, @lease_ms bigint, @token uniqueidentifier, @start bigint = NULL,
    @from_ranks nvarchar(max) = NULL
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    EXEC turno.own_check N'claim';
    SET IMPLICIT_TRANSACTIONS OFF;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    EXEC turno.claim_check @queues, @worker, @limit, @lease_ms, @token, @from_ranks;
    DECLARE @lock varbinary(1024) = CONVERT(binary(16), @token), @count bigint = 0, @taken bigint = 0, @again bigint = 0, @ready bigint = 0,
        @hold bigint, @next_due bigint, @lost nvarchar(max), @grace_ms bigint = @lease_ms / 3, @left bigint, @to_start bigint,
        @held bit = 1, @first nvarchar(max) = N'[]', @second nvarchar(max) = N'[]';
    BEGIN TRY
        BEGIN TRANSACTION;
        -- Two claims with one token wait for each other, so that the second finds what the first took.
        EXEC turno.key_lock N't', 0x, @lock;
        IF NOT EXISTS (SELECT 1 FROM turno.unfinished_job j WITH (INDEX(job_token), FORCESEEK) WHERE j.token = @token AND j.state = 'running')
        BEGIN
            SET @held = 0;
            EXEC turno.promote_due @queues, 1000, @count OUTPUT;
            EXEC turno.claim_take @queues, @worker, @limit, @lease_ms, @token, @start, @from_ranks, @taken OUTPUT, @first OUTPUT;
            -- Expired leases are the sweep's.
            IF @taken < @limit AND COALESCE(@from_ranks, N'') NOT LIKE N'%[0-9]%'
                EXEC turno.reap_expired 1000, @grace_ms, @lost OUTPUT, @ready OUTPUT, @hold OUTPUT;
            IF @ready > 0
            BEGIN
                SELECT @left = @limit - @taken, @to_start = IIF(@start < @taken, 0, @start - @taken);
                EXEC turno.claim_take @queues, @worker, @left, @lease_ms, @token, @to_start, NULL, @again OUTPUT, @second OUTPUT;
            END;
            IF @taken + @again < @limit
                EXEC turno.next_due_in @queues, @next_due OUTPUT;
        END;
        COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END CATCH;
    IF @held = 1
        EXEC turno.token_jobs @token, @queues;
    ELSE
        EXEC turno.claimed_jobs @token, @first, @second, @next_due;
END;
