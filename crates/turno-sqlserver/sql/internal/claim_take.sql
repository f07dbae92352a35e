-- claim_take: locks the best ready jobs and makes them running, by one statement for each queue.
-- Takes: the arguments of claim. Returns: how many jobs were taken; they themselves, best first, as a JSON array of objects with id.
-- Raises: nothing
-- Transaction: joins the caller's, which is at READ COMMITTED
-- Writes: job
-- Locks: per job taken its entry in job_ready and its row, in rank order; skips those that somebody holds
-- Rules: C1, C2, C3, C4, C8, F2, H3, P5
-- DIFFERS: UPDATE TOP knows no ORDER BY, so it goes through an ordered CTE. READPAST is refused where READ COMMITTED reads versions of rows,
--          unless READCOMMITTEDLOCK asks for locks; UPDLOCK lets only one claim look at a row; ROWLOCK since READPAST skips no page.
CREATE OR ALTER PROCEDURE turno.claim_take
    @queues nvarchar(max), @worker nvarchar(4000), @limit bigint, @lease_ms bigint, @token uniqueidentifier, @start bigint,
    @from_ranks nvarchar(max), @taken bigint OUTPUT, @jobs nvarchar(max) OUTPUT
AS
BEGIN
    DECLARE @now datetime2(6) = SYSUTCDATETIME(), @place int = 1, @places int, @queue varbinary(400), @from bigint, @left bigint,
        @to_start bigint, @label varbinary(400) = CONVERT(varbinary(400), @worker), @until datetime2(6);
    DECLARE @order TABLE (place int NOT NULL PRIMARY KEY, queue varbinary(400) NOT NULL, from_rank bigint NOT NULL);
    DECLARE @mine TABLE (id bigint NOT NULL PRIMARY KEY, rank bigint NOT NULL, place int NOT NULL);
    INSERT INTO @order (place, queue, from_rank)
    SELECT n.place, n.queue, COALESCE(CONVERT(bigint, f.[value]), -9223372036854775808)
    FROM turno.names_of(@queues) n LEFT JOIN OPENJSON(COALESCE(@from_ranks, N'[]')) f ON CONVERT(int, f.[key]) + 1 = n.place;
    SELECT @places = @@ROWCOUNT, @taken = 0, @until = DATEADD(millisecond, @lease_ms, @now);
    WHILE @place <= @places AND @taken < @limit
    BEGIN
        SELECT @queue = o.queue, @from = o.from_rank FROM @order o WHERE o.place = @place;
        SELECT @left = @limit - @taken, @to_start = COALESCE(@start, @limit) - @taken, @place += 1;
        IF NOT EXISTS (SELECT 1 FROM turno.queue q WHERE q.queue = @queue AND q.paused_at IS NOT NULL)
        BEGIN
            WITH best AS (
                SELECT TOP (@left) j.id, j.rank, j.state, j.attempt, j.token, j.worker, j.claimed_at, j.started_at, j.run_until, j.lease_until, j.max_run_ms,
                       ROW_NUMBER() OVER (ORDER BY j.rank, j.id) AS place
                FROM turno.unfinished_job j WITH (UPDLOCK, READPAST, READCOMMITTEDLOCK, ROWLOCK, INDEX(job_ready), FORCESEEK)
                WHERE j.queue = @queue AND j.state = 'ready' AND j.rank >= @from
                ORDER BY j.rank, j.id)
            UPDATE best
            SET state = 'running', attempt = attempt + 1, token = @token, worker = @label, claimed_at = @now,
                started_at = IIF(place <= @to_start, @now, NULL),
                run_until = DATEADD(millisecond, max_run_ms % 1000, DATEADD(second, max_run_ms / 1000 + 10, @now)),
                lease_until = IIF(@lease_ms < max_run_ms + 10000, @until,
                                  DATEADD(millisecond, max_run_ms % 1000, DATEADD(second, max_run_ms / 1000 + 10, @now)))
            OUTPUT inserted.id, inserted.rank, @place INTO @mine (id, rank, place)
            OPTION (MAXDOP 1);
            SET @taken += @@ROWCOUNT;
        END;
    END;
    SET @jobs = COALESCE((SELECT m.id FROM @mine m ORDER BY m.place, m.rank, m.id FOR JSON PATH), N'[]');
END;
