-- claim_take: locks the best ready jobs and makes them running. The locking scan is a derived table with a limit, which the
-- server computes once and first (STRAIGHT_JOIN): one index record and one row are locked for each job taken.
-- Takes: the arguments of claim. Returns: how many jobs were taken.
-- Raises: nothing
-- Transaction: joins the caller's, which is at READ COMMITTED: no gap is locked
-- Writes: job
-- Locks: job rows in rank order; skips those that somebody holds
-- DIFFERS: MariaDB also locks the record behind the end of a range, which is the head of another queue. So the ready jobs are counted
--          first, without a lock, and the locking scan ends at the last of them. Only SELECT ... INTO reads without a lock on both
--          servers: a query inside SET, IF or DECLARE waits for rows that somebody holds. Where none of those counted could be had,
--          somebody is claiming them, or looked at them in passing: it looks again after 1, 2, 4, 8 and 16 ms, so that a claim beside
--          another one brings jobs rather than a worker's pause; at most 31 ms in all, whatever the number of queues.
-- Rules: C1, C2, C3, C4, C8, F2, H3, P5
CREATE PROCEDURE turno.claim_take(
    IN p_queues LONGTEXT, IN p_worker VARCHAR(255), IN p_limit BIGINT, IN p_lease_ms BIGINT, IN p_token BINARY(16),
    IN p_start BIGINT, IN p_from_ranks LONGTEXT, OUT p_taken BIGINT)
BEGIN
    DECLARE v_place INT DEFAULT 0;
    DECLARE v_path VARCHAR(16);
    DECLARE v_queue VARBINARY(200);
    DECLARE v_now, v_from, v_left, v_start, v_paused, v_got BIGINT;
    DECLARE v_pause_ms BIGINT DEFAULT 1;
    DECLARE v_look BOOLEAN;
    SET p_taken = 0;
    WHILE v_place < JSON_LENGTH(p_queues) AND p_taken < p_limit DO
        SET v_path = CONCAT('$[', v_place, ']');
        SET v_queue = JSON_UNQUOTE(JSON_EXTRACT(p_queues, v_path));
        SET v_from = COALESCE(NULLIF(JSON_UNQUOTE(JSON_EXTRACT(p_from_ranks, v_path)), 'null'), '-9223372036854775808');
        SET v_left = p_limit - p_taken;
        SET v_start = GREATEST(0, COALESCE(p_start, p_limit) - p_taken);
        SET v_place = v_place + 1;
        SELECT COUNT(q.paused_at) INTO v_paused FROM turno.queue q WHERE q.queue = v_queue;
        SET v_got = 0, v_look = v_paused = 0;
        WHILE v_look DO
            SELECT COUNT(*) INTO v_left FROM (SELECT 1 AS one FROM turno.job j FORCE INDEX (job_place)
                          WHERE j.queue = v_queue AND j.state = 'ready' AND j.place >= v_from LIMIT v_left) c;
            IF v_left > 0 THEN
                SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
                UPDATE (SELECT c.id, ROW_NUMBER() OVER (ORDER BY c.place, c.id) AS number
                        FROM (SELECT j.id, j.place FROM turno.job j FORCE INDEX (job_place)
                              WHERE j.queue = v_queue AND j.state = 'ready' AND j.place >= v_from
                              ORDER BY j.place, j.id LIMIT v_left FOR UPDATE SKIP LOCKED) c) best
                STRAIGHT_JOIN turno.job j FORCE INDEX (PRIMARY) ON j.id = best.id
                SET j.state = 'running', j.attempt = j.attempt + 1, j.token = p_token, j.worker = p_worker, j.claimed_at = v_now,
                    j.started_at = IF(best.number <= v_start, v_now, NULL),
                    j.run_until = v_now + j.max_run_ms * 1000 + 10000000,
                    j.lease_until = v_now + LEAST(p_lease_ms * 1000, j.max_run_ms * 1000 + 10000000);
                SET v_got = ROW_COUNT();
            END IF;
            SET v_look = v_left > 0 AND v_got = 0 AND v_pause_ms < 32;
            IF v_look THEN
                DO SLEEP(v_pause_ms / 1000);
                SET v_pause_ms = v_pause_ms * 2, v_left = p_limit - p_taken;
            END IF;
        END WHILE;
        SET p_taken = p_taken + v_got;
    END WHILE;
END
