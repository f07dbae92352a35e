-- history_stats: how the jobs of one queue ended since an instant.
-- Takes: the queue, the instant. Returns: one row: counts to 10000, and times in ms over the latest 1000 of each outcome.
-- Raises: nothing
-- Transaction: any, at READ COMMITTED
-- Writes: nothing
-- Locks: none that lasts; skips rows that somebody holds
-- Rules: V1
CREATE OR ALTER FUNCTION turno.history_stats(@queue varbinary(400), @since datetime2(6)) RETURNS TABLE
AS
RETURN
    SELECT (SELECT COUNT(*) FROM (SELECT TOP (10000) 1 AS one
                                  FROM turno.finished_job f WITH (READPAST, READCOMMITTEDLOCK, INDEX(finished_job_by_queue), FORCESEEK)
                                  WHERE f.queue = @queue AND f.outcome = 'succeeded' AND f.finished_at >= @since) c) AS succeeded,
           (SELECT COUNT(*) FROM (SELECT TOP (10000) 1 AS one
                                  FROM turno.finished_job f WITH (READPAST, READCOMMITTEDLOCK, INDEX(finished_job_by_queue), FORCESEEK)
                                  WHERE f.queue = @queue AND f.outcome = 'dead' AND f.finished_at >= @since) c) AS dead,
           (SELECT COUNT(*) FROM (SELECT TOP (10000) 1 AS one
                                  FROM turno.finished_job f WITH (READPAST, READCOMMITTEDLOCK, INDEX(finished_job_by_queue), FORCESEEK)
                                  WHERE f.queue = @queue AND f.outcome = 'cancelled' AND f.finished_at >= @since) c) AS cancelled,
           MAX(IIF(o.start_place = CEILING(o.starts * 0.5), o.start_ms, NULL)) AS start_p50_ms,
           MAX(IIF(o.start_place = CEILING(o.starts * 0.99), o.start_ms, NULL)) AS start_p99_ms,
           MAX(IIF(o.finish_place = CEILING(o.finishes * 0.5), o.finish_ms, NULL)) AS finish_p50_ms,
           MAX(IIF(o.finish_place = CEILING(o.finishes * 0.99), o.finish_ms, NULL)) AS finish_p99_ms
    FROM (SELECT t.start_ms, t.finish_ms, COUNT(t.start_ms) OVER () AS starts, COUNT(*) OVER () AS finishes,
                 ROW_NUMBER() OVER (ORDER BY IIF(t.start_ms IS NULL, 1, 0), t.start_ms) AS start_place,
                 ROW_NUMBER() OVER (ORDER BY t.finish_ms) AS finish_place
          FROM (VALUES ('succeeded'), ('dead'), ('cancelled')) w (outcome)
          CROSS APPLY (SELECT TOP (1000) DATEDIFF_BIG(microsecond, f.run_at, f.claimed_at) / 1000 AS start_ms,
                              DATEDIFF_BIG(microsecond, f.first_due_at, f.finished_at) / 1000 AS finish_ms
                       FROM turno.finished_job f WITH (READPAST, READCOMMITTEDLOCK, INDEX(finished_job_by_queue), FORCESEEK)
                       WHERE f.queue = @queue AND f.outcome = w.outcome AND f.finished_at >= @since
                       ORDER BY f.finished_at DESC, f.id DESC) t) o;
