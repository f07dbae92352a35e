-- own_work: begins a transaction at READ COMMITTED, or refuses to run inside one of the caller's.
-- Takes: the operation's name, for the message. Returns: nothing.
-- Raises: TU001, TU002
-- Transaction: begins its own
-- Writes: nothing
-- Locks: none
-- Rules: C10
CREATE PROCEDURE turno.own_work(IN p_operation VARCHAR(32))
BEGIN
    DECLARE EXIT HANDLER FOR 1568
        CALL turno.raise_error(31002, CONCAT(p_operation, ' refuses to join a transaction of the caller'));
    CALL turno.session_check();
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
END
