-- raise_error: ends a routine with an error of the contract: SQLSTATE 45000 and a number of our own, 31001 for TU001 and so on.
-- Takes: the number, the message, of which the server keeps 128 characters. Returns: nothing.
-- Raises: TU001, TU002, TU003, TU004, TU005, TU006
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: E9
CREATE PROCEDURE turno.raise_error(IN p_errno INT, IN p_message TEXT)
BEGIN
    DECLARE v_message VARCHAR(128) DEFAULT LEFT(p_message, 128);
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = p_errno, MESSAGE_TEXT = v_message;
END
