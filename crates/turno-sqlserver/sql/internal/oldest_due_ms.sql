-- oldest_due_ms: how long the oldest due job of a queue has been waiting for a worker.
-- Takes: the queue, its aging, now.
-- Returns: ms; NULL if no job is due. With strict priority exact: one leap of the ready index for each priority in use. With aging
--          exact unless more than 10000 jobs rank before the oldest.
-- Raises: nothing
-- Transaction: any, at READ COMMITTED
-- Writes: nothing
-- Locks: none that lasts; skips rows that somebody holds
-- Rules: V1
CREATE OR ALTER FUNCTION turno.oldest_due_ms(@queue varbinary(400), @aging_ms bigint, @now datetime2(6)) RETURNS bigint
AS
BEGIN
    DECLARE @from bigint = -9223372036854775808, @oldest datetime2(6), @run_at datetime2(6), @rank bigint, @id bigint, @ms bigint;
    SELECT TOP (1) @oldest = j.run_at FROM turno.unfinished_job j WITH (READPAST, READCOMMITTEDLOCK, INDEX(job_due), FORCESEEK)
    WHERE j.queue = @queue AND j.state = 'scheduled' AND j.run_at <= @now ORDER BY j.run_at, j.id;
    IF @aging_ms IS NOT NULL
        SELECT @run_at = MIN(r.run_at)
        FROM (SELECT TOP (10000) j.run_at FROM turno.unfinished_job j WITH (READPAST, READCOMMITTEDLOCK, INDEX(job_ready), FORCESEEK)
              WHERE j.queue = @queue AND j.state = 'ready' ORDER BY j.rank, j.id) r;
    SET @oldest = IIF(@oldest IS NULL OR @run_at < @oldest, COALESCE(@run_at, @oldest), @oldest);
    WHILE @aging_ms IS NULL AND @from IS NOT NULL
    BEGIN
        SELECT @rank = NULL, @run_at = NULL;
        SELECT TOP (1) @rank = j.rank, @run_at = j.run_at
        FROM turno.unfinished_job j WITH (READPAST, READCOMMITTEDLOCK, INDEX(job_ready), FORCESEEK)
        WHERE j.queue = @queue AND j.state = 'ready' AND j.rank >= @from ORDER BY j.rank, j.id;
        SET @oldest = IIF(@oldest IS NULL OR @run_at < @oldest, COALESCE(@run_at, @oldest), @oldest);
        -- To the beginning of the next priority: always further, whatever rank the row has. Division goes towards zero.
        SET @from = IIF(@rank > 9000000000000000000, NULL,
                        (@rank / 4503599627370496 + IIF(@rank < 0 AND @rank % 4503599627370496 <> 0, 0, 1)) * 4503599627370496);
    END;
    SET @ms = DATEDIFF_BIG(microsecond, @oldest, @now) / 1000;
    RETURN IIF(@ms < 0, 0, @ms);
END;
