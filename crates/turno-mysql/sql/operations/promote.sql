-- promote: makes due scheduled jobs ready. Every claim does this for its own queues.
-- Takes: queues as a JSON array of names (NULL or empty: all), the most rows to touch.
-- Returns: how many jobs became ready.
-- Raises: TU001, TU002
-- Transaction: owns its own, at READ COMMITTED
-- Writes: job
-- Locks: job rows in due order; skips those that somebody holds
-- Rules: C3, H2, C10
CREATE PROCEDURE turno.promote(IN p_queues LONGTEXT, IN p_limit BIGINT)
BEGIN
    DECLARE v_own BOOLEAN;
    DECLARE v_queues LONGTEXT DEFAULT p_queues;
    DECLARE v_count BIGINT;
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
    CALL turno.own_work('promote');
    SET v_own = TRUE;
    CALL turno.batch_check(p_limit);
    IF NOT COALESCE(JSON_VALID(v_queues), TRUE) THEN
        CALL turno.raise_error(31001, 'promote names its queues as a JSON array');
    END IF;
    IF COALESCE(JSON_LENGTH(v_queues), 0) = 0 THEN
        CALL turno.queue_names(v_queues);
    END IF;
    CALL turno.promote_due(v_queues, p_limit, v_count);
    COMMIT AND NO CHAIN NO RELEASE;
    SELECT v_count AS promoted;
END
