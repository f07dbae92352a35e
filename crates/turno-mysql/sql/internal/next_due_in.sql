-- next_due_in: how long until the next scheduled job of these queues is due.
-- Takes: queues. Returns: ms, at least 0; NULL if nothing is scheduled.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: C7
CREATE PROCEDURE turno.next_due_in(IN p_queues LONGTEXT, OUT p_due_in_ms BIGINT)
BEGIN
    DECLARE v_place INT DEFAULT 0;
    DECLARE v_queue VARBINARY(200);
    DECLARE v_due, v_next, v_paused BIGINT;
    WHILE v_place < JSON_LENGTH(p_queues) DO
        SET v_queue = JSON_UNQUOTE(JSON_EXTRACT(p_queues, CONCAT('$[', v_place, ']')));
        SET v_place = v_place + 1;
        SELECT MIN(t.at) INTO v_due FROM (SELECT j.place AS at FROM turno.job j FORCE INDEX (job_place)
                     WHERE j.queue = v_queue AND j.state = 'scheduled' ORDER BY j.place, j.id LIMIT 1) t;
        SELECT COUNT(q.paused_at) INTO v_paused FROM turno.queue q WHERE q.queue = v_queue;
        IF v_due IS NOT NULL AND v_paused = 0 THEN
            SET v_next = LEAST(COALESCE(v_next, v_due), v_due);
        END IF;
    END WHILE;
    SET p_due_in_ms = GREATEST(0, CEIL((v_next - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))) / 1000));
END
