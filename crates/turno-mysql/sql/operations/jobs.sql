-- jobs: a page of jobs in one state, newest id first, at a bounded cost: it looks at the newest 10000 jobs, and if those do not fill
--       the page, at all of the state or of the queue's state if those are at most 10000.
-- Takes: the state; a queue or NULL; a kind or NULL; the id below which to go on or NULL; rows of a page.
-- Returns: rows as job does. A last row that has nothing but an id says that the search stopped there: go on below it.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V2, V6, O6
CREATE PROCEDURE turno.jobs(
    IN p_state VARCHAR(255), IN p_queue VARCHAR(255), IN p_kind VARCHAR(255), IN p_before BIGINT, IN p_limit BIGINT)
BEGIN
    DECLARE v_before BIGINT DEFAULT COALESCE(p_before, 9223372036854775807);
    DECLARE v_stop BIGINT;
    -- As the column is: compared with another charset no index serves.
    DECLARE v_state VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_ids, v_few LONGTEXT;
    DECLARE v_n BIGINT;
    CALL turno.batch_check(p_limit);
    IF COALESCE(p_state, '') NOT IN ('scheduled', 'ready', 'running', 'succeeded', 'dead', 'cancelled') THEN
        CALL turno.raise_error(31001, CONCAT(COALESCE(p_state, 'NULL'), ' is not a state'));
    END IF;
    SET v_state = p_state;
    -- The place comes first: what leaves the table between the two statements then hides nothing else.
    IF p_state IN ('scheduled', 'ready', 'running') THEN
        SELECT MIN(s.id) INTO v_stop FROM (SELECT j.id FROM turno.job j FORCE INDEX (PRIMARY)
            WHERE j.id < v_before ORDER BY j.id DESC LIMIT 1 OFFSET 9999) s;
    ELSE
        SELECT MIN(s.id) INTO v_stop FROM (SELECT f.id FROM turno.finished_job f FORCE INDEX (finished_job_by_outcome)
            WHERE f.outcome = v_state AND f.id < v_before ORDER BY f.id DESC LIMIT 1 OFFSET 9999) s;
    END IF;
    CALL turno.jobs_scan(p_state, p_queue, p_kind, COALESCE(v_stop, 0), v_before, p_limit, v_ids, v_n);
    IF v_n = p_limit THEN
        SET v_stop = NULL;
    ELSEIF v_stop IS NOT NULL THEN
        CALL turno.jobs_few(p_state, p_queue, p_kind, v_before, p_limit, v_few);
        SET v_stop = IF(v_few IS NULL, v_stop, NULL), v_ids = COALESCE(v_few, v_ids);
    END IF;
    CALL turno.job_records(v_ids, v_stop);
END
