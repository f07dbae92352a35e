-- session_check: refuses a session that has a clock of its own: every live lease could look expired to it.
-- Takes: nothing. Returns: nothing.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: T1
-- DIFFERS: any session of these servers may set its own clock (SET timestamp), which SYSDATE does not obey.
CREATE PROCEDURE turno.session_check()
BEGIN
    IF ABS(TIMESTAMPDIFF(SECOND, NOW(), SYSDATE())) > 10 THEN
        CALL turno.raise_error(31001, 'the session has a clock of its own: SET timestamp = DEFAULT');
    END IF;
END
