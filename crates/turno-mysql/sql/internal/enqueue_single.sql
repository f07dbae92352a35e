-- enqueue_single: inserts one job in the caller's transaction, or in one of its own.
-- Takes: the columns of the job. Returns: one row: the job's id, and whether this call created it.
-- Raises: TU001 beyond a limit; 3819 (MySQL) or 4025 (MariaDB) with the constraint's name, 1406 beyond a limit of a column
-- Transaction: joins the caller's, or owns its own
-- Writes: enqueue_key, unique_key, job
-- Locks: the idempotency key, then the unique key
-- Rules: E1, E3, E4, E5, E12
CREATE PROCEDURE turno.enqueue_single(
    IN p_queue VARCHAR(255), IN p_kind VARCHAR(255), IN p_payload LONGTEXT, IN p_priority BIGINT, IN p_run_at BIGINT,
    IN p_max_attempts BIGINT, IN p_max_run_ms BIGINT, IN p_unique_key VARCHAR(1024), IN p_idempotency_key VARCHAR(1024),
    IN p_traceparent LONGTEXT)
BEGIN
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE v_own, v_created BOOLEAN;
    DECLARE v_id BIGINT;
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
    CALL turno.begin_work(v_own);
    CALL turno.enqueue_row(1, p_queue, p_kind, p_payload, p_priority, p_run_at, p_max_attempts, p_max_run_ms, p_unique_key,
        p_idempotency_key, p_traceparent, v_now, v_own, v_id, v_created);
    CALL turno.end_work(v_own);
    SELECT v_id AS id, v_created AS created;
END
