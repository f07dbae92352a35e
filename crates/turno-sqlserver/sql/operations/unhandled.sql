-- unhandled: the kinds of one queue whose jobs were given back at least three times in a row, while none of the queue's last 1000
-- successes is of that kind: most often no handler knows them.
-- Takes: the queue.
-- Returns: kind, how many of the first 10000 scheduled jobs of the queue, one of them; the most frequent kinds first, at most 100.
-- Raises: TU002
-- Transaction: any but one at SNAPSHOT
-- Writes: nothing
-- Locks: none that lasts; skips rows that somebody holds
-- Rules: V4
CREATE OR ALTER PROCEDURE turno.unhandled @queue nvarchar(max)
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    IF @@TRANCOUNT > 0
        EXEC turno.join_check N'unhandled', 0;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    DECLARE @name varbinary(400) = CONVERT(varbinary(400), LEFT(@queue, 200));
    SELECT TOP (100) CONVERT(nvarchar(200), s.kind) AS kind, COUNT_BIG(*) AS jobs, MIN(s.id) AS example
    FROM (SELECT TOP (10000) j.id, j.kind, j.attempt
          FROM turno.unfinished_job j WITH (READPAST, READCOMMITTEDLOCK, INDEX(job_due), FORCESEEK)
          WHERE j.queue = @name AND j.state = 'scheduled' ORDER BY j.run_at, j.id) s
    CROSS APPLY (SELECT COUNT(*) AS given_back FROM turno.attempt a WITH (READPAST, READCOMMITTEDLOCK, FORCESEEK)
                 WHERE a.job_id = s.id AND a.attempt > s.attempt - 3 AND a.verb = 'release') r
    WHERE s.attempt >= 3 AND r.given_back = 3
      AND NOT EXISTS (SELECT 1 FROM (SELECT TOP (1000) f.kind
                                     FROM turno.finished_job f WITH (READPAST, READCOMMITTEDLOCK, INDEX(finished_job_by_queue), FORCESEEK)
                                     WHERE f.queue = @name AND f.outcome = 'succeeded' ORDER BY f.finished_at DESC, f.id DESC) t
                      WHERE t.kind = s.kind)
    GROUP BY s.kind ORDER BY COUNT_BIG(*) DESC, s.kind;
END;
