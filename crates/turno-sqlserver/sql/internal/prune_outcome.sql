-- prune_outcome: removes records of one queue and outcome whose time is over.
-- Takes: the queue, the outcome, now, how long to keep (-1: for ever), the most jobs and how many were removed before.
-- Returns: how many were removed with these.
-- Raises: nothing
-- Transaction: joins the caller's, which is at READ COMMITTED
-- Writes: finished_job, attempt, enqueue_key
-- Locks: rows of the history in id order; skips those that somebody holds. The index tells candidates without a lock that lasts: to
--        hold its entry while waiting for the row would be half of a deadlock with retry and forget, which lock the row first
-- Rules: P7, P8
CREATE OR ALTER PROCEDURE turno.prune_outcome
    @queue varbinary(400), @outcome varchar(9), @now datetime2(6), @keep_ms bigint, @limit bigint, @removed bigint OUTPUT
AS
BEGIN
    DECLARE @before datetime2(6), @left bigint = @limit - @removed, @gone nvarchar(max);
    DECLARE @over TABLE (id bigint NOT NULL PRIMARY KEY);
    DECLARE @deleted TABLE (id bigint NOT NULL PRIMARY KEY);
    IF @keep_ms < 0 OR @left <= 0
        RETURN;
    SET @before = DATEADD(millisecond, -(@keep_ms % 1000), DATEADD(second, -(@keep_ms / 1000), @now));
    INSERT INTO @over (id)
    SELECT TOP (@left) f.id
    FROM turno.finished_job f WITH (READPAST, READCOMMITTEDLOCK, ROWLOCK, INDEX(finished_job_by_queue), FORCESEEK)
    WHERE f.queue = @queue AND f.outcome = @outcome AND f.finished_at < @before
    ORDER BY f.finished_at, f.id
    OPTION (MAXDOP 1);
    DELETE f OUTPUT deleted.id INTO @deleted (id)
    FROM @over o INNER LOOP JOIN turno.finished_job f WITH (READPAST, READCOMMITTEDLOCK, ROWLOCK, FORCESEEK) ON f.id = o.id
    WHERE f.outcome = @outcome AND f.finished_at < @before
    OPTION (FORCE ORDER, MAXDOP 1);
    SET @removed += @@ROWCOUNT;
    SET @gone = STUFF((SELECT N',' + CONVERT(nvarchar(20), d.id) FROM @deleted d FOR XML PATH(N'')), 1, 1, N'[') + N']';
    IF @gone IS NOT NULL
        EXEC turno.forget_rows @gone;
END;
