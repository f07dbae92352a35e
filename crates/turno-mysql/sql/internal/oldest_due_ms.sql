-- oldest_due_ms: how long the oldest due job of a queue has been waiting for a worker.
-- Takes: the queue, its aging, now.
-- Returns: ms; NULL if no job is due. With strict priority exact: one leap of the ready index for each priority in use. With aging
--          exact unless more than 10000 jobs rank before the oldest.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V1
CREATE PROCEDURE turno.oldest_due_ms(IN p_queue VARBINARY(200), IN p_aging_ms BIGINT, IN p_now BIGINT, OUT p_ms BIGINT)
BEGIN
    DECLARE v_rank BIGINT DEFAULT -9223372036854775808;
    DECLARE v_oldest, v_run_at, v_row_rank BIGINT;
    SELECT MIN(t.at) INTO v_oldest FROM (SELECT j.place AS at FROM turno.job j FORCE INDEX (job_place)
                    WHERE j.queue = p_queue AND j.state = 'scheduled' AND j.place <= p_now ORDER BY j.place, j.id LIMIT 1) t;
    IF p_aging_ms IS NOT NULL THEN
        SELECT MIN(t.run_at) INTO v_run_at FROM (SELECT j.run_at FROM turno.job j FORCE INDEX (job_place)
                        WHERE j.queue = p_queue AND j.state = 'ready' ORDER BY j.place, j.id LIMIT 10000) t;
        SET v_oldest = LEAST(COALESCE(v_oldest, v_run_at), COALESCE(v_run_at, v_oldest));
    ELSE
        leap: LOOP
            SET v_run_at = NULL;
            SELECT j.run_at, j.rank INTO v_run_at, v_row_rank FROM turno.job j FORCE INDEX (job_place)
            WHERE j.queue = p_queue AND j.state = 'ready' AND j.place >= v_rank ORDER BY j.place, j.id LIMIT 1;
            IF v_run_at IS NULL THEN
                LEAVE leap;
            END IF;
            SET v_oldest = LEAST(COALESCE(v_oldest, v_run_at), v_run_at);
            -- To the beginning of the next priority: always further, whatever rank the row has.
            IF v_row_rank > 9000000000000000000 THEN
                LEAVE leap;
            END IF;
            SET v_rank = (FLOOR(v_row_rank / 4503599627370496) + 1) * 4503599627370496;
        END LOOP;
    END IF;
    SET p_ms = GREATEST(0, (p_now - v_oldest) DIV 1000);
END
