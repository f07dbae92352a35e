-- jobs_scan: a page of the jobs in one state between two ids.
-- Takes: the state; a queue or NULL; a kind or NULL; the first id; the id above the last; rows of a page.
-- Returns: the ids as a JSON array, newest first, and how many.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V2, V6
CREATE PROCEDURE turno.jobs_scan(
    IN p_state VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin, IN p_queue VARBINARY(1020), IN p_kind VARBINARY(1020),
    IN p_from BIGINT, IN p_before BIGINT,
    IN p_limit BIGINT, OUT p_ids LONGTEXT, OUT p_n BIGINT)
BEGIN
    DECLARE v_id BIGINT;
    DECLARE v_done BOOLEAN DEFAULT FALSE;
    DECLARE v_hot CURSOR FOR
        SELECT j.id FROM turno.job j FORCE INDEX (PRIMARY)
        WHERE j.state = p_state AND j.id >= p_from AND j.id < p_before AND (p_queue IS NULL OR j.queue = p_queue)
          AND (p_kind IS NULL OR j.kind = p_kind)
        ORDER BY j.id DESC LIMIT p_limit;
    DECLARE v_ended CURSOR FOR
        SELECT f.id FROM turno.finished_job f FORCE INDEX (finished_job_by_outcome)
        WHERE f.outcome = p_state AND f.id >= p_from AND f.id < p_before AND (p_queue IS NULL OR f.queue = p_queue)
          AND (p_kind IS NULL OR f.kind = p_kind)
        ORDER BY f.id DESC LIMIT p_limit;
    SET p_ids = '', p_n = 0;
    IF p_state IN ('scheduled', 'ready', 'running') THEN OPEN v_hot; ELSE OPEN v_ended; END IF;
    WHILE NOT v_done DO
        BEGIN
            DECLARE EXIT HANDLER FOR NOT FOUND SET v_done = TRUE;
            IF p_state IN ('scheduled', 'ready', 'running') THEN FETCH v_hot INTO v_id; ELSE FETCH v_ended INTO v_id; END IF;
            SET p_ids = CONCAT(p_ids, IF(p_ids = '', '', ','), v_id), p_n = p_n + 1;
        END;
    END WHILE;
    SET p_ids = CONCAT('[', p_ids, ']');
END
