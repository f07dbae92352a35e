-- next_due_in: how long until the next scheduled job of these queues is due.
-- Takes: queues. Returns: ms, at least 0; NULL if nothing is scheduled.
-- Raises: nothing
-- Transaction: any, at READ COMMITTED
-- Writes: nothing
-- Locks: none that lasts; skips rows that somebody holds, so that a claim waits for nobody
-- Rules: C7
CREATE OR ALTER PROCEDURE turno.next_due_in @queues nvarchar(max), @due_in_ms bigint OUTPUT
AS
BEGIN
    DECLARE @next datetime2(6);
    SELECT @next = MIN(d.run_at)
    FROM turno.names_of(@queues) n
    CROSS APPLY (SELECT TOP (1) j.run_at
                 FROM turno.unfinished_job j WITH (READPAST, READCOMMITTEDLOCK, ROWLOCK, INDEX(job_due), FORCESEEK)
                 WHERE j.queue = n.queue AND j.state = 'scheduled' ORDER BY j.run_at, j.id) d
    WHERE NOT EXISTS (SELECT 1 FROM turno.queue q WHERE q.queue = n.queue AND q.paused_at IS NOT NULL);
    SET @due_in_ms = CEILING(DATEDIFF_BIG(microsecond, SYSUTCDATETIME(), @next) / 1000.0);
    SET @due_in_ms = IIF(@due_in_ms < 0, 0, @due_in_ms);
END;
