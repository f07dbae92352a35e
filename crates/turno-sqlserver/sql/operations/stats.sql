-- stats: what an operator looks at first, per queue, at a cost that does not grow with the tables.
-- Takes: the window of history in ms.
-- Returns: per queue: paused; age of the oldest due job; ready, scheduled, running, expired; succeeded, dead, cancelled, retries and
--          refused within the window (counts stop at 10000); time to start and to finish in ms, median and 99th percentile of the
--          latest 1000 jobs of each outcome that ended in the window.
-- Raises: TU001, TU002
-- Transaction: any but one at SNAPSHOT
-- Writes: nothing
-- Locks: none that lasts; skips rows that somebody holds
-- Rules: V1
CREATE OR ALTER PROCEDURE turno.stats @window_ms bigint
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    IF @@TRANCOUNT > 0
        EXEC turno.join_check N'stats', 0;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    DECLARE @now datetime2(6) = SYSUTCDATETIME(), @since datetime2(6);
    DECLARE @leases TABLE (id bigint NOT NULL PRIMARY KEY, lease_until datetime2(6) NOT NULL);
    IF @window_ms IS NULL OR @window_ms NOT BETWEEN 1 AND 315360000000
        THROW 53101, N'a window has 1..315360000000 ms', 1;
    SET @since = DATEADD(millisecond, -(@window_ms % 1000), DATEADD(second, -(@window_ms / 1000), @now));
    INSERT INTO @leases (id, lease_until)
    SELECT TOP (100000) j.id, j.lease_until FROM turno.unfinished_job j WITH (READPAST, READCOMMITTEDLOCK, INDEX(job_lease), FORCESEEK)
    WHERE j.state = 'running' AND j.lease_until > '1970-01-01' ORDER BY j.lease_until;
    WITH running AS (
        SELECT j.queue, COUNT(*) AS running, COUNT(IIF(l.lease_until < @now, 1, NULL)) AS expired
        FROM @leases l JOIN turno.unfinished_job j WITH (READPAST, READCOMMITTEDLOCK, FORCESEEK) ON j.id = l.id GROUP BY j.queue)
    SELECT CONVERT(nvarchar(200), n.queue) AS queue, s.paused, s.oldest_due_age_ms, s.ready, s.scheduled, COALESCE(r.running, 0) AS running,
           COALESCE(r.expired, 0) AS expired, s.succeeded, s.dead, s.cancelled, s.retries, s.refused, s.start_p50_ms, s.start_p99_ms,
           s.finish_p50_ms, s.finish_p99_ms
    FROM turno.queue_names() n
    CROSS APPLY turno.queue_stats(n.queue, @now, @since) s
    LEFT JOIN running r ON r.queue = n.queue
    ORDER BY CONVERT(nvarchar(200), n.queue) COLLATE Latin1_General_100_BIN2;
END;
