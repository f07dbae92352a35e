-- queue_names: every queue that has settings or rows, found by leaps over the indexes, not by reading the rows.
-- Takes: nothing. Returns: names in order, as a JSON array.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V1
CREATE PROCEDURE turno.queue_names(OUT p_queues LONGTEXT)
BEGIN
    DECLARE v_queue VARBINARY(200) DEFAULT '';
    SET p_queues = '';
    leap: LOOP
        SELECT MIN(t.queue) INTO v_queue FROM (
            SELECT MIN(j.queue) AS queue FROM turno.job j FORCE INDEX (job_place) WHERE j.queue > v_queue
            UNION ALL SELECT MIN(f.queue) FROM turno.finished_job f FORCE INDEX (finished_job_by_queue) WHERE f.queue > v_queue
            UNION ALL SELECT MIN(q.queue) FROM turno.queue q WHERE q.queue > v_queue) t;
        IF v_queue IS NULL THEN
            LEAVE leap;
        END IF;
        SET p_queues = CONCAT(p_queues, IF(p_queues = '', '', ','), JSON_QUOTE(CONVERT(v_queue USING utf8mb4)));
    END LOOP;
    SET p_queues = CONCAT('[', p_queues, ']');
END
