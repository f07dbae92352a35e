-- jobs_few: a page of the jobs in one state that an index can name, if they are few. Ended jobs have such an index by queue only.
-- Takes: the state; a queue or NULL; a kind or NULL; the id below which to go on; rows of a page.
-- Returns: the ids as a JSON array, newest first; NULL if more than 10000 jobs are in this state.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V6
CREATE PROCEDURE turno.jobs_few(
    IN p_state VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin, IN p_queue VARCHAR(255), IN p_kind VARBINARY(1020),
    IN p_before BIGINT, IN p_limit BIGINT,
    OUT p_ids LONGTEXT)
few: BEGIN
    DECLARE v_hot BOOLEAN DEFAULT p_state IN ('scheduled', 'ready', 'running');
    DECLARE v_queues LONGTEXT;
    DECLARE v_id, v_n BIGINT;
    DECLARE v_done BOOLEAN DEFAULT FALSE;
    DECLARE v_page CURSOR FOR
        SELECT j.id
        FROM JSON_TABLE(v_queues, '$[*]' COLUMNS (queue VARCHAR(255) CHARACTER SET utf8mb4 PATH '$')) q
        STRAIGHT_JOIN turno.job j FORCE INDEX (job_place) ON j.queue = CAST(q.queue AS BINARY) AND j.state = p_state
        WHERE v_hot AND j.id < p_before AND (p_kind IS NULL OR j.kind = p_kind)
        UNION ALL
        SELECT f.id
        FROM JSON_TABLE(v_queues, '$[*]' COLUMNS (queue VARCHAR(255) CHARACTER SET utf8mb4 PATH '$')) q
        STRAIGHT_JOIN turno.finished_job f FORCE INDEX (finished_job_by_queue) ON f.queue = CAST(q.queue AS BINARY) AND f.outcome = p_state
        WHERE NOT v_hot AND f.id < p_before AND (p_kind IS NULL OR f.kind = p_kind)
        ORDER BY 1 DESC LIMIT p_limit;
    SET p_ids = NULL;
    IF p_queue IS NULL AND NOT v_hot THEN
        LEAVE few;
    END IF;
    IF p_queue IS NULL THEN CALL turno.queue_names(v_queues); ELSE SET v_queues = JSON_ARRAY(p_queue); END IF;
    SELECT COUNT(*) INTO v_n FROM (
        (SELECT 1 FROM JSON_TABLE(v_queues, '$[*]' COLUMNS (queue VARCHAR(255) CHARACTER SET utf8mb4 PATH '$')) q
         STRAIGHT_JOIN turno.job j FORCE INDEX (job_place) ON j.queue = CAST(q.queue AS BINARY) AND j.state = p_state
         WHERE v_hot LIMIT 10001)
        UNION ALL
        (SELECT 1 FROM JSON_TABLE(v_queues, '$[*]' COLUMNS (queue VARCHAR(255) CHARACTER SET utf8mb4 PATH '$')) q
         STRAIGHT_JOIN turno.finished_job f FORCE INDEX (finished_job_by_queue) ON f.queue = CAST(q.queue AS BINARY)
            AND f.outcome = p_state
         WHERE NOT v_hot LIMIT 10001)) c;
    IF v_n > 10000 THEN
        LEAVE few;
    END IF;
    SET p_ids = '';
    OPEN v_page;
    WHILE NOT v_done DO
        BEGIN
            DECLARE EXIT HANDLER FOR NOT FOUND SET v_done = TRUE;
            FETCH v_page INTO v_id;
            SET p_ids = CONCAT(p_ids, IF(p_ids = '', '', ','), v_id);
        END;
    END WHILE;
    SET p_ids = CONCAT('[', p_ids, ']');
END
