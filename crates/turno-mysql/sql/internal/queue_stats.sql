-- queue_stats: what stats says of one queue, but for its running jobs.
-- Takes: the queue, now, the instant where the window begins. Returns: a JSON array.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V1
CREATE PROCEDURE turno.queue_stats(IN p_queue VARBINARY(200), IN p_now BIGINT, IN p_since BIGINT, OUT p_row LONGTEXT)
BEGIN
    DECLARE v_paused BOOLEAN;
    DECLARE v_aging, v_oldest, v_ready, v_scheduled, v_succeeded, v_dead, v_cancelled, v_retries, v_refused BIGINT;
    DECLARE v_start_p50, v_start_p99, v_finish_p50, v_finish_p99 BIGINT;
    SELECT q.queue = p_queue AND q.paused_at IS NOT NULL, q.aging_ms INTO v_paused, v_aging
    FROM turno.queue q WHERE q.queue IN (p_queue, '') ORDER BY q.queue DESC LIMIT 1;
    CALL turno.oldest_due_ms(p_queue, v_aging, p_now, v_oldest);
    SELECT COUNT(*) INTO v_ready FROM (SELECT 1 AS one FROM turno.job j FORCE INDEX (job_place)
                   WHERE j.queue = p_queue AND j.state = 'ready' LIMIT 10000) c;
    SELECT COUNT(*) INTO v_scheduled FROM (SELECT 1 AS one FROM turno.job j FORCE INDEX (job_place)
                       WHERE j.queue = p_queue AND j.state = 'scheduled' LIMIT 10000) c;
    SELECT COUNT(*) INTO v_retries FROM (SELECT 1 AS one FROM turno.attempt a FORCE INDEX (attempt_by_queue)
                     WHERE a.queue = p_queue AND a.ended_at >= p_since AND a.charged LIMIT 10000) c;
    SELECT COUNT(*) INTO v_refused FROM (SELECT 1 AS one FROM turno.refused r FORCE INDEX (refused_by_queue)
                     WHERE r.queue = p_queue AND r.last_at >= p_since LIMIT 10000) c;
    CALL turno.history_stats(p_queue, p_since, v_succeeded, v_dead, v_cancelled, v_start_p50, v_start_p99, v_finish_p50,
        v_finish_p99);
    SET p_row = JSON_ARRAY(v_paused, v_oldest, v_ready, v_scheduled, v_succeeded, v_dead, v_cancelled, v_retries, v_refused,
        v_start_p50, v_start_p99, v_finish_p50, v_finish_p99);
END
