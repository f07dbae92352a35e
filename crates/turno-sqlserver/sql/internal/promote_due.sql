-- promote_due: makes due scheduled jobs of these queues ready.
-- Takes: queues, the most rows to touch. Returns: how many became ready.
-- Raises: nothing
-- Transaction: joins the caller's, which is at READ COMMITTED
-- Writes: job
-- Locks: per job its entry in job_due and its row, in due order; skips those that somebody holds
-- Rules: C3, H2
CREATE OR ALTER PROCEDURE turno.promote_due @queues nvarchar(max), @limit bigint, @count bigint OUTPUT
AS
BEGIN
    DECLARE @now datetime2(6) = SYSUTCDATETIME(), @place int = 1, @places int, @queue varbinary(400), @left bigint, @step bigint,
        @paused datetime2(6);
    DECLARE @order TABLE (place int NOT NULL PRIMARY KEY, queue varbinary(400) NOT NULL);
    INSERT INTO @order (place, queue) SELECT n.place, n.queue FROM turno.names_of(@queues) n;
    SELECT @places = @@ROWCOUNT, @count = 0;
    WHILE @place <= @places AND @count < @limit
    BEGIN
        SELECT @queue = o.queue FROM @order o WHERE o.place = @place;
        SELECT @left = @limit - @count, @place += 1;
        SELECT @step = q.step, @paused = IIF(q.queue = 0x, NULL, q.paused_at) FROM turno.queue_settings(@queue) q;
        IF @paused IS NULL
        BEGIN
            WITH due AS (
                SELECT TOP (@left) j.state, j.rank, j.run_at, j.priority
                FROM turno.unfinished_job j WITH (UPDLOCK, READPAST, READCOMMITTEDLOCK, ROWLOCK, INDEX(job_due), FORCESEEK)
                WHERE j.queue = @queue AND j.state = 'scheduled' AND j.run_at <= @now
                ORDER BY j.run_at, j.id)
            UPDATE due SET state = 'ready', rank = DATEDIFF_BIG(microsecond, '1970-01-01', run_at) + priority * @step
            OPTION (MAXDOP 1);
            SET @count += @@ROWCOUNT;
        END;
    END;
END;
