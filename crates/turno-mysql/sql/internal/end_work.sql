-- end_work: keeps what was done since begin_work.
-- Takes: whether the transaction is our own. Returns: nothing.
-- Raises: what a commit raises
-- Transaction: commits its own
-- Writes: nothing
-- Locks: releases its own
-- Rules: E1, S5
CREATE PROCEDURE turno.end_work(IN p_own BOOLEAN)
BEGIN
    IF p_own THEN
        COMMIT AND NO CHAIN NO RELEASE;
    ELSE
        RELEASE SAVEPOINT turno_call;
    END IF;
END
