-- prune_outcome: removes records of one queue and outcome whose time is over.
-- Takes: the queue, the outcome, now, how long to keep (-1: for ever), the most jobs and how many were removed before.
-- Returns: how many were removed with these.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: finished_job, attempt, enqueue_key
-- Locks: rows of the history in order of their end; skips those that somebody holds
-- Rules: P7, P8
CREATE PROCEDURE turno.prune_outcome(
    IN p_queue VARBINARY(200), IN p_outcome VARCHAR(9), IN p_now BIGINT, IN p_keep_ms BIGINT, IN p_limit BIGINT,
    INOUT p_removed BIGINT)
BEGIN
    DECLARE v_left BIGINT DEFAULT p_limit - p_removed;
    DECLARE v_id BIGINT;
    DECLARE v_ids LONGTEXT DEFAULT '';
    DECLARE v_done BOOLEAN DEFAULT FALSE;
    DECLARE v_over CURSOR FOR
        SELECT f.id FROM turno.finished_job f FORCE INDEX (finished_job_by_queue)
        WHERE f.queue = p_queue AND f.outcome = p_outcome AND f.finished_at < p_now - p_keep_ms * 1000
        ORDER BY f.finished_at, f.id LIMIT v_left FOR UPDATE SKIP LOCKED;
    IF p_keep_ms >= 0 AND v_left > 0 THEN
        OPEN v_over;
        WHILE NOT v_done DO
            BEGIN
                DECLARE EXIT HANDLER FOR NOT FOUND SET v_done = TRUE;
                FETCH v_over INTO v_id;
            END;
            IF NOT v_done THEN
                SET v_ids = CONCAT(v_ids, IF(v_ids = '', '', ','), v_id), p_removed = p_removed + 1;
            END IF;
        END WHILE;
        CLOSE v_over;
        IF v_ids <> '' THEN
            CALL turno.forget_rows(CONCAT('[', v_ids, ']'));
        END IF;
    END IF;
END
