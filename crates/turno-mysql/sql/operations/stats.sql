-- stats: what an operator looks at first, per queue, at a cost that does not grow with the tables.
-- Takes: the window of history in ms.
-- Returns: per queue: paused; age of the oldest due job; ready, scheduled, running, expired; succeeded, dead, cancelled, retries and
--          refused within the window (counts stop at 10000); time to start and to finish in ms, median and 99th percentile of the
--          latest 1000 jobs of each outcome that ended in the window.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V1
CREATE PROCEDURE turno.stats(IN p_window_ms BIGINT)
BEGIN
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE v_queues, v_row LONGTEXT;
    DECLARE v_rows LONGTEXT DEFAULT '';
    DECLARE v_place INT DEFAULT 0;
    IF p_window_ms IS NULL OR p_window_ms NOT BETWEEN 1 AND 315360000000 THEN
        CALL turno.raise_error(31001, 'a window has 1..315360000000 ms');
    END IF;
    CALL turno.queue_names(v_queues);
    WHILE v_place < JSON_LENGTH(v_queues) DO
        CALL turno.queue_stats(JSON_UNQUOTE(JSON_EXTRACT(v_queues, CONCAT('$[', v_place, ']'))), v_now, v_now - p_window_ms * 1000,
            v_row);
        SET v_rows = CONCAT(v_rows, IF(v_rows = '', '', ','), v_row), v_place = v_place + 1;
    END WHILE;
    SELECT n.queue, s.paused, s.oldest_due_age_ms, s.ready, s.scheduled, COALESCE(r.running, 0) AS running,
           COALESCE(r.expired, 0) AS expired, s.succeeded, s.dead, s.cancelled, s.retries, s.refused, s.start_p50_ms, s.start_p99_ms,
           s.finish_p50_ms, s.finish_p99_ms
    FROM JSON_TABLE(v_queues, '$[*]' COLUMNS (place FOR ORDINALITY, queue VARCHAR(200) CHARACTER SET utf8mb4 PATH '$')) n
    JOIN JSON_TABLE(CONCAT('[', v_rows, ']'), '$[*]' COLUMNS (
        place FOR ORDINALITY, paused INT PATH '$[0]', oldest_due_age_ms BIGINT PATH '$[1]', ready BIGINT PATH '$[2]',
        scheduled BIGINT PATH '$[3]', succeeded BIGINT PATH '$[4]', dead BIGINT PATH '$[5]', cancelled BIGINT PATH '$[6]',
        retries BIGINT PATH '$[7]', refused BIGINT PATH '$[8]', start_p50_ms BIGINT PATH '$[9]', start_p99_ms BIGINT PATH '$[10]',
        finish_p50_ms BIGINT PATH '$[11]', finish_p99_ms BIGINT PATH '$[12]')) s ON s.place = n.place
    LEFT JOIN (SELECT t.queue, COUNT(*) AS running, COUNT(IF(t.lease_until < v_now, 1, NULL)) AS expired
               FROM (SELECT j.queue, j.lease_until FROM turno.job j FORCE INDEX (job_lease) WHERE j.lease_until > 0
                     ORDER BY j.lease_until LIMIT 100000) t
               GROUP BY t.queue) r ON r.queue = CAST(n.queue AS BINARY)
    ORDER BY n.place;
END
