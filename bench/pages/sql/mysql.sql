-- The same rows for MySQL and MariaDB; @n says how many. A hundred thousand rows a transaction, without the binary log.
SET SESSION sql_log_bin = 0;
CREATE TABLE turno.fill_number (i INT PRIMARY KEY) ENGINE = InnoDB;
INSERT INTO turno.fill_number
WITH RECURSIVE digit (d) AS (SELECT 0 UNION ALL SELECT d + 1 FROM digit WHERE d < 9)
SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d FROM digit a, digit b, digit c, digit e, digit f;
DELIMITER //
CREATE PROCEDURE turno.fill_pages(IN p_n BIGINT)
BEGIN
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE v_from BIGINT DEFAULT 1;
    WHILE v_from <= p_n DO
        INSERT INTO turno.finished_job (id, queue, kind, outcome, payload, result, priority, attempt, failures, max_attempts, max_run_ms,
            unique_key, operation_id, verb, charged, worker, claimed_at, started_at, run_at, first_due_at, created_at, finished_at, error,
            error_bytes)
        SELECT r.g, CONCAT('queue ', LEAST(r.g % 20, r.g % 7)), CONCAT('kind ', r.g * 7919 % 40),
            CASE WHEN r.g % 50 = 0 THEN 'dead' WHEN r.g % 200 = 7 THEN 'cancelled' ELSE 'succeeded' END,
            CONCAT('{"order": ', r.g, ', "note": "', REPEAT('x', r.g % 120), '"}'), IF(r.g % 50 <> 0, '{"sent": true}', NULL), 0,
            IF(r.g % 50 = 0, 2, 1), IF(r.g % 50 = 0, 2, 0), 2, 3600000,
            CASE WHEN r.g % 20 = 3 THEN CONCAT('order ', r.g) WHEN r.g % 20 = 4 THEN 'every minute' END, UNHEX(LEFT(SHA2(r.g, 256), 32)),
            CASE WHEN r.g % 50 = 0 THEN 'fail' WHEN r.g % 200 = 7 THEN NULL ELSE 'complete' END, r.g % 50 = 0,
            CONCAT('worker-', r.g % 8), r.at, r.at, r.at - 40000, r.at - 40000, r.at - 60000, r.at + 150000,
            IF(r.g % 50 = 0, CONCAT('error ', CHAR(65 + r.g DIV 50 % 12 USING utf8mb4), CHAR(65 + r.g DIV 50 % 10 USING utf8mb4),
                                    ': no answer after ', r.g, ' ms'), NULL),
            IF(r.g % 50 = 0, 40, NULL)
        FROM (SELECT v_from + n.i AS g, v_now - 864000000000 DIV p_n * (p_n - v_from - n.i) AS at
              FROM turno.fill_number n WHERE v_from + n.i <= p_n) r;
        COMMIT;
        SET v_from = v_from + 100000;
    END WHILE;
    UPDATE turno.finished_job SET queue = 'rare queue', kind = 'rare kind' WHERE id IN (17, 1017);
    INSERT INTO turno.attempt (job_id, attempt, queue, verb, worker, claimed_at, started_at, ended_at, run_at, charged, error, error_bytes,
        state)
    SELECT f.id, 1, f.queue, 'fail', f.worker, f.claimed_at, f.claimed_at, f.claimed_at, f.run_at, 1, f.error, 40, 'scheduled'
    FROM turno.finished_job f WHERE f.outcome = 'dead';
    INSERT INTO turno.refused (job_id, attempt, verb, queue, state, worker, reason, first_at, last_at)
    SELECT n.i + 1, 1, 'complete', 'queue 0', 'succeeded', 'late', 'already settled as complete', v_now, v_now
    FROM turno.fill_number n WHERE n.i < 5000;
    INSERT INTO turno.job (id, queue, kind, payload, state, `rank`, run_at, first_due_at, created_at, operation_id)
    SELECT p_n + 1 + n.i, CONCAT('queue ', n.i % 7), CONCAT('kind ', n.i % 40), CONCAT('{"order": ', n.i, '}'), 'ready', v_now - 1000 * n.i,
        v_now - 1000 * n.i, v_now - 1000 * n.i, v_now, UNHEX(LEFT(SHA2(-n.i, 256), 32))
    FROM turno.fill_number n WHERE n.i < 20000;
    INSERT INTO turno.job (id, queue, kind, payload, state, run_at, first_due_at, created_at, operation_id)
    SELECT p_n + 20001 + n.i, CONCAT('queue ', n.i % 7), CONCAT('kind ', n.i % 40), CONCAT('{"order": ', n.i, '}'), 'scheduled',
        v_now + 86400000000 + 1000000 * n.i, v_now + 86400000000 + 1000000 * n.i, v_now, UNHEX(LEFT(SHA2(-20000 - n.i, 256), 32))
    FROM turno.fill_number n WHERE n.i < 50000;
    COMMIT;
END//
DELIMITER ;
CALL turno.fill_pages(@n);
DROP PROCEDURE turno.fill_pages;
DROP TABLE turno.fill_number;
CALL turno.claim('["queue 1", "queue 2"]', 'worker-1', 200, 3600000, UUID(), NULL, NULL);
ANALYZE TABLE turno.finished_job, turno.job, turno.attempt;
