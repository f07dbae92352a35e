-- find: a page of the jobs that have a unique key, and of those that an idempotency key stands for, newest id first, in any state.
-- Takes: the key; a queue or NULL; the id below which to go on or NULL; rows of a page.
-- Returns: rows as job does. A last row that has nothing but an id says that the search stopped there, after 10000 ended jobs of other
--          queues with this key: go on below it.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V2, V6, V7, O6
CREATE PROCEDURE turno.find(IN p_key VARCHAR(512), IN p_queue VARCHAR(255), IN p_before BIGINT, IN p_limit BIGINT)
BEGIN
    DECLARE v_before BIGINT DEFAULT COALESCE(p_before, 9223372036854775807);
    DECLARE v_key VARBINARY(2048) DEFAULT p_key;
    DECLARE v_queue VARBINARY(1020) DEFAULT p_queue;
    DECLARE v_ids LONGTEXT DEFAULT '';
    DECLARE v_n BIGINT DEFAULT 0;
    DECLARE v_queues LONGTEXT;
    DECLARE v_id, v_stop BIGINT;
    DECLARE v_done BOOLEAN DEFAULT FALSE;
    DECLARE v_page CURSOR FOR
        SELECT c.id FROM (
            (SELECT f.id FROM turno.finished_job f FORCE INDEX (finished_job_by_key)
             WHERE f.unique_key = v_key AND f.id >= COALESCE(v_stop, 0) AND f.id < v_before AND (v_queue IS NULL OR f.queue = v_queue)
             ORDER BY f.id DESC LIMIT p_limit)
            UNION
            SELECT k.job_id FROM JSON_TABLE(v_queues, '$[*]' COLUMNS (queue VARCHAR(255) CHARACTER SET utf8mb4 PATH '$')) q
            STRAIGHT_JOIN turno.enqueue_key k FORCE INDEX (PRIMARY) ON k.queue = CAST(q.queue AS BINARY) AND k.key = v_key
            UNION
            SELECT u.job_id FROM JSON_TABLE(v_queues, '$[*]' COLUMNS (queue VARCHAR(255) CHARACTER SET utf8mb4 PATH '$')) q
            STRAIGHT_JOIN turno.unique_key u FORCE INDEX (PRIMARY) ON u.queue = CAST(q.queue AS BINARY) AND u.key = v_key) c
        WHERE c.id >= COALESCE(v_stop, 0) AND c.id < v_before ORDER BY c.id DESC LIMIT p_limit;
    CALL turno.batch_check(p_limit);
    IF v_queue IS NULL THEN
        CALL turno.queue_names(v_queues);
    ELSE
        SET v_queues = JSON_ARRAY(p_queue);
        -- The place comes first: what leaves the table between the two statements then hides nothing else.
        SELECT MIN(s.id) INTO v_stop FROM (SELECT f.id FROM turno.finished_job f FORCE INDEX (finished_job_by_key)
            WHERE f.unique_key = v_key AND f.id < v_before ORDER BY f.id DESC LIMIT 1 OFFSET 9999) s;
    END IF;
    OPEN v_page;
    WHILE NOT v_done DO
        BEGIN
            DECLARE EXIT HANDLER FOR NOT FOUND SET v_done = TRUE;
            FETCH v_page INTO v_id;
            SET v_ids = CONCAT(v_ids, IF(v_ids = '', '', ','), v_id), v_n = v_n + 1;
        END;
    END WHILE;
    CALL turno.job_records(CONCAT('[', v_ids, ']'), IF(v_n = p_limit, NULL, v_stop));
END
