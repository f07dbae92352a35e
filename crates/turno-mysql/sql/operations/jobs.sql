-- jobs: a page of jobs in one state, newest id first.
-- Takes: the state; a queue or NULL; a kind or NULL; the id below which to go on or NULL; rows of a page.
-- Returns: rows as job does.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V2, O6
CREATE PROCEDURE turno.jobs(
    IN p_state VARCHAR(255), IN p_queue VARCHAR(255), IN p_kind VARCHAR(255), IN p_before BIGINT, IN p_limit BIGINT)
BEGIN
    DECLARE v_before BIGINT DEFAULT COALESCE(p_before, 9223372036854775807);
    DECLARE v_queue, v_kind VARBINARY(1020);
    DECLARE v_id BIGINT;
    DECLARE v_ids LONGTEXT DEFAULT '';
    DECLARE v_done BOOLEAN DEFAULT FALSE;
    DECLARE v_hot CURSOR FOR
        SELECT j.id FROM turno.job j FORCE INDEX (PRIMARY)
        WHERE j.state = p_state AND j.id < v_before AND (v_queue IS NULL OR j.queue = v_queue) AND (v_kind IS NULL OR j.kind = v_kind)
        ORDER BY j.id DESC LIMIT p_limit;
    DECLARE v_ended CURSOR FOR
        SELECT f.id FROM turno.finished_job f FORCE INDEX (finished_job_by_outcome)
        WHERE f.outcome = p_state AND f.id < v_before AND (v_queue IS NULL OR f.queue = v_queue)
          AND (v_kind IS NULL OR f.kind = v_kind)
        ORDER BY f.id DESC LIMIT p_limit;
    CALL turno.batch_check(p_limit);
    SET v_queue = p_queue, v_kind = p_kind;
    IF COALESCE(p_state, '') NOT IN ('scheduled', 'ready', 'running', 'succeeded', 'dead', 'cancelled') THEN
        CALL turno.raise_error(31001, CONCAT(COALESCE(p_state, 'NULL'), ' is not a state'));
    END IF;
    IF p_state IN ('scheduled', 'ready', 'running') THEN OPEN v_hot; ELSE OPEN v_ended; END IF;
    WHILE NOT v_done DO
        BEGIN
            DECLARE EXIT HANDLER FOR NOT FOUND SET v_done = TRUE;
            IF p_state IN ('scheduled', 'ready', 'running') THEN FETCH v_hot INTO v_id; ELSE FETCH v_ended INTO v_id; END IF;
            SET v_ids = CONCAT(v_ids, IF(v_ids = '', '', ','), v_id);
        END;
    END WHILE;
    CALL turno.job_records(CONCAT('[', v_ids, ']'));
END
