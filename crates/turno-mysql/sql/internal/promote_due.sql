-- promote_due: makes due scheduled jobs of these queues ready.
-- Takes: queues, the most rows to touch. Returns: how many became ready.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: job
-- Locks: job rows in due order; skips those that somebody holds
-- Rules: C3, H2
CREATE PROCEDURE turno.promote_due(IN p_queues LONGTEXT, IN p_limit BIGINT, OUT p_count BIGINT)
BEGIN
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE v_place INT DEFAULT 0;
    DECLARE v_queue VARBINARY(200);
    DECLARE v_left, v_step, v_paused BIGINT;
    SET p_count = 0;
    WHILE v_place < JSON_LENGTH(p_queues) AND p_count < p_limit DO
        SET v_queue = JSON_UNQUOTE(JSON_EXTRACT(p_queues, CONCAT('$[', v_place, ']')));
        SET v_place = v_place + 1;
        SET v_left = p_limit - p_count;
        -- Counted first, as in claim_take.
        SELECT COUNT(*) INTO v_left FROM (SELECT 1 AS one FROM turno.job j FORCE INDEX (job_place)
                      WHERE j.queue = v_queue AND j.state = 'scheduled' AND j.place <= v_now LIMIT v_left) c;
        SELECT COUNT(q.paused_at) INTO v_paused FROM turno.queue q WHERE q.queue = v_queue;
        IF v_left > 0 AND v_paused = 0 THEN
            SELECT COALESCE(q.aging_ms * 1000, 4503599627370496) INTO v_step FROM turno.queue q WHERE q.queue IN (v_queue, '')
                          ORDER BY q.queue DESC LIMIT 1;
            UPDATE (SELECT j.id FROM turno.job j FORCE INDEX (job_place) 
                    WHERE j.queue = v_queue AND j.state = 'scheduled' AND j.place <= v_now
                    ORDER BY j.place, j.id LIMIT v_left FOR UPDATE SKIP LOCKED) due
            STRAIGHT_JOIN turno.job j FORCE INDEX (PRIMARY) ON j.id = due.id
            SET j.state = 'ready', j.rank = j.run_at + j.priority * v_step;
            SET p_count = p_count + ROW_COUNT();
        END IF;
    END WHILE;
END
