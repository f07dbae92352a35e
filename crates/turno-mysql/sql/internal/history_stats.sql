-- history_stats: how the jobs of one queue ended since an instant.
-- Takes: the queue, the instant. Returns: counts to 10000, and times in ms over the latest 1000 of each outcome.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V1
CREATE PROCEDURE turno.history_stats(
    IN p_queue VARBINARY(200), IN p_since BIGINT, OUT p_succeeded BIGINT, OUT p_dead BIGINT, OUT p_cancelled BIGINT,
    OUT p_start_p50 BIGINT, OUT p_start_p99 BIGINT, OUT p_finish_p50 BIGINT, OUT p_finish_p99 BIGINT)
BEGIN
    SELECT COUNT(*) INTO p_succeeded FROM (SELECT 1 AS one FROM turno.finished_job f FORCE INDEX (finished_job_by_queue)
        WHERE f.queue = p_queue AND f.outcome = 'succeeded' AND f.finished_at >= p_since LIMIT 10000) c;
    SELECT COUNT(*) INTO p_dead FROM (SELECT 1 AS one FROM turno.finished_job f FORCE INDEX (finished_job_by_queue)
        WHERE f.queue = p_queue AND f.outcome = 'dead' AND f.finished_at >= p_since LIMIT 10000) c;
    SELECT COUNT(*) INTO p_cancelled FROM (SELECT 1 AS one FROM turno.finished_job f FORCE INDEX (finished_job_by_queue)
        WHERE f.queue = p_queue AND f.outcome = 'cancelled' AND f.finished_at >= p_since LIMIT 10000) c;
    SELECT MAX(IF(o.start_place = CEIL(o.starts * 0.5), o.start_ms, NULL)),
           MAX(IF(o.start_place = CEIL(o.starts * 0.99), o.start_ms, NULL)),
           MAX(IF(o.finish_place = CEIL(o.finishes * 0.5), o.finish_ms, NULL)),
           MAX(IF(o.finish_place = CEIL(o.finishes * 0.99), o.finish_ms, NULL))
    INTO p_start_p50, p_start_p99, p_finish_p50, p_finish_p99
    FROM (SELECT t.start_ms, t.finish_ms, COUNT(t.start_ms) OVER () AS starts, COUNT(*) OVER () AS finishes,
                 ROW_NUMBER() OVER (ORDER BY t.start_ms IS NULL, t.start_ms) AS start_place,
                 ROW_NUMBER() OVER (ORDER BY t.finish_ms) AS finish_place
          FROM ((SELECT (f.claimed_at - f.run_at) DIV 1000 AS start_ms,
                        (f.finished_at - f.first_due_at) DIV 1000 AS finish_ms
                 FROM turno.finished_job f FORCE INDEX (finished_job_by_queue)
                 WHERE f.queue = p_queue AND f.outcome = 'succeeded' AND f.finished_at >= p_since
                 ORDER BY f.finished_at DESC, f.id DESC LIMIT 1000)
                UNION ALL
                (SELECT (f.claimed_at - f.run_at) DIV 1000, (f.finished_at - f.first_due_at) DIV 1000
                 FROM turno.finished_job f FORCE INDEX (finished_job_by_queue)
                 WHERE f.queue = p_queue AND f.outcome = 'dead' AND f.finished_at >= p_since
                 ORDER BY f.finished_at DESC, f.id DESC LIMIT 1000)
                UNION ALL
                (SELECT (f.claimed_at - f.run_at) DIV 1000, (f.finished_at - f.first_due_at) DIV 1000
                 FROM turno.finished_job f FORCE INDEX (finished_job_by_queue)
                 WHERE f.queue = p_queue AND f.outcome = 'cancelled' AND f.finished_at >= p_since
                 ORDER BY f.finished_at DESC, f.id DESC LIMIT 1000)) t) o;
END
