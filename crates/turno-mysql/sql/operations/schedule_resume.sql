-- schedule_resume: ends a pause. Nothing is fired for its time: the schedule counts from now, and is due at once, so that whoever ticks
-- next asks a calendar for the next instant. Resuming what is not paused changes nothing.
-- Takes: its name.
-- Returns: nothing.
-- Raises: TU005
-- Transaction: joins the caller's, or owns its own
-- Writes: schedule
-- Locks: the schedule's row
-- Rules: K8
CREATE PROCEDURE turno.schedule_resume(IN p_name VARCHAR(255))
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
    UPDATE turno.schedule s
    SET s.revision = s.revision + 1, s.updated_at = v_now, s.next_at = GREATEST(s.done_until, v_now),
        s.done_until = GREATEST(s.done_until, v_now), s.paused_at = NULL
    WHERE s.name = v_name AND s.paused_at IS NOT NULL;
    CALL turno.end_work(v_own);
END
