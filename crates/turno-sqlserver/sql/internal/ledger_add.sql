-- ledger_add: writes one refused result. The same result again counts up; beyond 100 rows for a job the newest row counts.
-- Takes: what was refused, why, and who held the job or how it ended.
-- Returns: nothing.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: refused
-- Locks: the ledger of the job, by an application lock: two first refusals of one result must not both insert
-- Rules: S7
CREATE OR ALTER PROCEDURE turno.ledger_add
    @job bigint, @attempt bigint, @verb varchar(8), @detail nvarchar(max), @worker varbinary(400), @reason nvarchar(1000),
    @queue varbinary(400), @state varchar(9), @owner varbinary(400), @owner_attempt bigint
AS
BEGIN
    DECLARE @now datetime2(6) = SYSUTCDATETIME(), @count int, @same bigint, @newest bigint, @bytes bigint;
    DECLARE @of_job varbinary(1024) = CONVERT(varbinary(8), @job);
    EXEC turno.key_lock N'r', 0x, @of_job;
    SELECT @count = COUNT(*), @same = MAX(IIF(r.attempt = @attempt AND r.verb = @verb, r.id, NULL)), @newest = MAX(r.id)
    FROM turno.refused_result r WITH (READCOMMITTEDLOCK, ROWLOCK, INDEX(refused_once), FORCESEEK) WHERE r.job_id = @job;
    IF @same IS NULL AND @count >= 100
        SET @same = @newest;
    IF @same IS NOT NULL
        UPDATE turno.refused_result WITH (ROWLOCK) SET times = times + 1, last_at = @now WHERE id = @same;
    ELSE
    BEGIN
        EXEC turno.cut_error @detail OUTPUT, @bytes OUTPUT;
        INSERT INTO turno.refused_result (job_id, queue, attempt, verb, worker, reason, detail, owner, owner_attempt, state, first_at, last_at)
        VALUES (@job, @queue, @attempt, @verb, @worker, @reason, @detail, @owner, @owner_attempt, @state, @now, @now);
    END;
END;
