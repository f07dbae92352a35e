-- queue_set: changes settings of a queue, or of the installation's defaults. NULL leaves a setting as it is.
-- Takes: the queue ('': the defaults), then the settings. aging_ms 0 returns to strict priority, run_at_horizon_ms -1 removes
--        that limit, keep_..._ms -1 keeps for ever, receipts_ms 0 turns receipts off. After a change of aging call rerank.
-- Returns: the settings.
-- Raises: 3819 (MySQL) or 4025 (MariaDB) with the constraint's name
-- Transaction: joins the caller's, or owns its own
-- Writes: queue
-- Locks: the queue's row
-- Rules: P6, P7, P8, E11, C9
CREATE PROCEDURE turno.queue_set(
    IN p_queue VARCHAR(255), IN p_description LONGTEXT, IN p_aging_ms BIGINT, IN p_max_attempts BIGINT, IN p_max_run_ms BIGINT,
    IN p_retry_base_ms BIGINT, IN p_retry_cap_ms BIGINT, IN p_max_attempts_limit BIGINT, IN p_max_run_limit_ms BIGINT,
    IN p_run_at_horizon_ms BIGINT, IN p_keep_succeeded_ms BIGINT, IN p_keep_cancelled_ms BIGINT, IN p_keep_dead_ms BIGINT,
    IN p_receipts_ms BIGINT)
BEGIN
    DECLARE v_queue VARBINARY(255) DEFAULT p_queue;
    DECLARE v_own BOOLEAN;
    DECLARE EXIT HANDLER FOR 1213
    BEGIN
        CALL turno.lost_work(v_own);
        RESIGNAL;
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
    CALL turno.queue_row(p_queue);
    UPDATE turno.queue q
    SET q.description = COALESCE(p_description, q.description),
        q.aging_ms = IF(p_aging_ms = 0, NULL, COALESCE(p_aging_ms, q.aging_ms)),
        q.max_attempts = COALESCE(p_max_attempts, q.max_attempts),
        q.max_run_ms = COALESCE(p_max_run_ms, q.max_run_ms),
        q.retry_base_ms = COALESCE(p_retry_base_ms, q.retry_base_ms),
        q.retry_cap_ms = COALESCE(p_retry_cap_ms, q.retry_cap_ms),
        q.max_attempts_limit = COALESCE(p_max_attempts_limit, q.max_attempts_limit),
        q.max_run_limit_ms = COALESCE(p_max_run_limit_ms, q.max_run_limit_ms),
        q.run_at_horizon_ms = IF(p_run_at_horizon_ms = -1, NULL, COALESCE(p_run_at_horizon_ms, q.run_at_horizon_ms)),
        q.keep_succeeded_ms = COALESCE(p_keep_succeeded_ms, q.keep_succeeded_ms),
        q.keep_cancelled_ms = COALESCE(p_keep_cancelled_ms, q.keep_cancelled_ms),
        q.keep_dead_ms = COALESCE(p_keep_dead_ms, q.keep_dead_ms),
        q.receipts_ms = COALESCE(p_receipts_ms, q.receipts_ms)
    WHERE q.queue = v_queue;
    CALL turno.queue_rows(JSON_ARRAY(p_queue));
    CALL turno.end_work(v_own);
END
