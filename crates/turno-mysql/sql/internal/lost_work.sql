-- lost_work: ends a transaction of our own after an error that says that the server has rolled it back. It need not have: a routine
-- of ours may have said so, and after a deadlock over the counter of the ids MariaDB still counts the session as inside a transaction.
-- Takes: whether the transaction is our own (FALSE: the caller's, NULL: nothing was begun). Returns: nothing.
-- Raises: nothing
-- Transaction: rolls back its own, and the caller's, which the error says is lost: what it may have left half done must not be committed
-- Writes: nothing
-- Locks: releases its own
-- Rules: X3
CREATE PROCEDURE turno.lost_work(IN p_own BOOLEAN)
BEGIN
    IF p_own IS NOT NULL THEN
        ROLLBACK AND NO CHAIN NO RELEASE;
    END IF;
END
