-- schedule_remove: removes a schedule. Its jobs stay, and so do the records of its instants until prune removes them.
-- Takes: its name.
-- Returns: nothing.
-- Raises: TU005
-- Transaction: joins the caller's, or owns its own
-- Writes: schedule
-- Locks: the schedule's row
-- Rules: K1
CREATE PROCEDURE turno.schedule_remove(IN p_name VARCHAR(255))
BEGIN
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
    DELETE FROM turno.schedule WHERE name = v_name;
    CALL turno.end_work(v_own);
END
