-- enqueue_rows: inserts jobs, all or none, and answers in the order of the input.
-- Takes: a JSON array of at most 1000 objects with queue, kind and payload (a string that holds JSON text), and if wanted run_at,
--        priority, max_attempts, max_run_ms, unique_key, idempotency_key, traceparent; whether priorities are obeyed.
-- Returns: per row its place (from 1), the job's id, whether this call created it.
-- Raises: TU001 beyond a limit; 3819 (MySQL) or 4025 (MariaDB) with the constraint's name, 1406 beyond a limit of a column
-- Transaction: joins the caller's, or owns its own
-- Writes: enqueue_key, unique_key, job
-- Locks: idempotency keys in key order, then unique keys in key order: two bulk calls cannot deadlock
-- Rules: E1, E3, E4, E5, E7, E11, E12
CREATE PROCEDURE turno.enqueue_rows(IN p_jobs LONGTEXT, IN p_prioritized BOOLEAN)
BEGIN
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE v_own BOOLEAN;
    DECLARE v_keyed LONGTEXT;
    DECLARE v_first BIGINT;
    DECLARE v_base BINARY(12);
    -- MariaDB tells a deadlock by 1467 when it was over the counter of the ids.
    DECLARE EXIT HANDLER FOR 1213, 1467
    BEGIN
        CALL turno.lost_work(v_own);
        RESIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213;
    END;
    DECLARE EXIT HANDLER FOR 1265
    BEGIN
        CALL turno.undo_work(v_own);
        RESIGNAL SQLSTATE '22001' SET MYSQL_ERRNO = 1406;
    END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        CALL turno.undo_work(v_own);
        RESIGNAL;
    END;
    IF NOT COALESCE(JSON_VALID(p_jobs) AND JSON_TYPE(p_jobs) = 'ARRAY', FALSE) OR JSON_LENGTH(p_jobs) NOT BETWEEN 1 AND 1000 THEN
        CALL turno.raise_error(31001, 'one call enqueues a JSON array of 1..1000 jobs');
    END IF;
    CALL turno.begin_work(v_own);
    CALL turno.enqueue_check_many(p_jobs, p_prioritized, v_now);
    CALL turno.enqueue_keyed(p_jobs, p_prioritized, v_now, v_own, v_keyed);
    CALL turno.enqueue_bulk(p_jobs, p_prioritized, v_now, v_base, v_first);
    -- The new ids are read back by the operation ids that were given out: those of one insert need not be neighbours.
    SELECT a.place, a.id, a.created
    FROM (SELECT r.place, r.id, r.created FROM JSON_TABLE(v_keyed, '$[*]' COLUMNS (
              place BIGINT PATH '$[0]', id BIGINT PATH '$[1]', created INT PATH '$[2]')) r
          UNION ALL
          SELECT CAST(CONV(HEX(SUBSTR(j.operation_id, 13)), 16, 10) AS SIGNED), j.id, 1
          FROM turno.job j FORCE INDEX (PRIMARY) WHERE j.id >= v_first AND LEFT(j.operation_id, 12) = v_base) a
    ORDER BY a.place;
    CALL turno.end_work(v_own);
END
