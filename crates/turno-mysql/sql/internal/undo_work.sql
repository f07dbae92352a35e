-- undo_work: undoes exactly what was done since begin_work. Called by handlers, which then resignal: one for SQLEXCEPTION and one for 1265,
--            a text that no column holds, which MySQL calls an error of class 01 and SQLEXCEPTION leaves out.
-- Takes: whether the transaction is our own (NULL: nothing was begun). Returns: nothing.
-- Raises: nothing
-- Transaction: rolls its own back, or the caller's to our savepoint
-- Writes: nothing
-- Locks: releases its own
-- Rules: E1, S5, X3
CREATE PROCEDURE turno.undo_work(IN p_own BOOLEAN)
BEGIN
    -- A server that rolls the whole transaction back (on a lock timeout, if it is set so) has taken the savepoint with it.
    DECLARE CONTINUE HANDLER FOR 1305 BEGIN END;
    IF p_own THEN
        ROLLBACK AND NO CHAIN NO RELEASE;
    ELSEIF p_own = FALSE THEN
        ROLLBACK TO SAVEPOINT turno_call;
        RELEASE SAVEPOINT turno_call;
    END IF;
END
