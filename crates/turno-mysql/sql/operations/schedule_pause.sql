-- schedule_pause: once this has committed nothing of the schedule is fired, until it is resumed.
-- Takes: its name.
-- Returns: nothing.
-- Raises: TU005
-- Transaction: joins the caller's, or owns its own
-- Writes: schedule
-- Locks: the schedule's row
-- Rules: K8
CREATE PROCEDURE turno.schedule_pause(IN p_name VARCHAR(255))
BEGIN
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE v_name VARBINARY(1020) DEFAULT p_name;
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
    CALL turno.schedule_lock(p_name);
    UPDATE turno.schedule s SET s.revision = s.revision + 1, s.updated_at = v_now, s.paused_at = v_now
    WHERE s.name = v_name AND s.paused_at IS NULL;
    CALL turno.end_work(v_own);
END
