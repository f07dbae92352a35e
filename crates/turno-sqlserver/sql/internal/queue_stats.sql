-- queue_stats: what stats says of one queue, but for its running jobs. Counts stop at 10000.
-- Takes: the queue, now, the instant where the window begins. Returns: one row.
-- Raises: nothing
-- Transaction: any, at READ COMMITTED
-- Writes: nothing
-- Locks: none that lasts; skips rows that somebody holds
-- Rules: V1
CREATE OR ALTER FUNCTION turno.queue_stats(@queue varbinary(400), @now datetime2(6), @since datetime2(6)) RETURNS TABLE
AS
RETURN
    SELECT CONVERT(bit, IIF(q.queue = @queue AND q.paused_at IS NOT NULL, 1, 0)) AS paused,
           turno.oldest_due_ms(@queue, q.aging_ms, @now) AS oldest_due_age_ms,
           (SELECT COUNT(*) FROM (SELECT TOP (10000) 1 AS one
                                  FROM turno.unfinished_job j WITH (READPAST, READCOMMITTEDLOCK, INDEX(job_ready), FORCESEEK)
                                  WHERE j.queue = @queue AND j.state = 'ready') c) AS ready,
           (SELECT COUNT(*) FROM (SELECT TOP (10000) 1 AS one
                                  FROM turno.unfinished_job j WITH (READPAST, READCOMMITTEDLOCK, INDEX(job_due), FORCESEEK)
                                  WHERE j.queue = @queue AND j.state = 'scheduled') c) AS scheduled,
           (SELECT COUNT(*) FROM (SELECT TOP (10000) 1 AS one
                                  FROM turno.attempt a WITH (READPAST, READCOMMITTEDLOCK, INDEX(attempt_by_queue), FORCESEEK)
                                  WHERE a.queue = @queue AND a.ended_at >= @since AND a.charged = 1) c) AS retries,
           (SELECT COUNT(*) FROM (SELECT TOP (10000) 1 AS one
                                  FROM turno.refused_result r WITH (READPAST, READCOMMITTEDLOCK, INDEX(refused_by_queue), FORCESEEK)
                                  WHERE r.queue = @queue AND r.last_at >= @since) c) AS refused,
           h.succeeded, h.dead, h.cancelled, h.start_p50_ms, h.start_p99_ms, h.finish_p50_ms, h.finish_p99_ms
    FROM turno.queue_settings(@queue) q
    CROSS APPLY turno.history_stats(@queue, @since) h;
