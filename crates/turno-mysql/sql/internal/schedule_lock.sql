-- schedule_lock: locks a schedule that must be there.
-- Takes: its name. Returns: nothing.
-- Raises: TU005
-- Transaction: joins the caller's
-- Writes: nothing
-- Locks: the schedule's row
-- Rules: K8
CREATE PROCEDURE turno.schedule_lock(IN p_name VARCHAR(255))
BEGIN
    DECLARE v_name VARBINARY(1020) DEFAULT p_name;
    DECLARE v_there BIGINT;
    -- A look without a lock comes first, since a lock of what is absent would be one of the gap.
    SELECT COUNT(*) INTO v_there FROM turno.schedule s WHERE s.name = v_name;
    IF v_there > 0 THEN
        SELECT COUNT(*) INTO v_there FROM turno.schedule s WHERE s.name = v_name FOR UPDATE;
    END IF;
    IF v_there = 0 THEN
        CALL turno.raise_error(31005, CONCAT('there is no schedule ', COALESCE(QUOTE(p_name), 'NULL')));
    END IF;
END
