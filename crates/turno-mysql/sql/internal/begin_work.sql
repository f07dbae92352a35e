-- begin_work: joins the caller's transaction under a savepoint, or begins one. A savepoint that was just set cannot be released
-- (error 1305) where there is no transaction to hold it: that is the test.
-- Takes: nothing. Returns: whether the transaction is our own.
-- Raises: TU001
-- Transaction: joins the caller's, or begins its own at READ COMMITTED
-- Writes: nothing
-- Locks: none
-- Rules: E1, S5, X3
-- DIFFERS: MySQL and MariaDB commit every statement of a routine by itself unless there is a transaction.
CREATE PROCEDURE turno.begin_work(OUT p_own BOOLEAN)
BEGIN
    DECLARE CONTINUE HANDLER FOR 1305 SET p_own = TRUE;
    CALL turno.session_check();
    SET p_own = FALSE;
    SAVEPOINT turno_call;
    RELEASE SAVEPOINT turno_call;
    IF p_own THEN
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        START TRANSACTION;
    ELSE
        SAVEPOINT turno_call;
    END IF;
END
