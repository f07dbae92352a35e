-- wait: marks that somebody sleeps until one of these queues has work.
-- Takes: queues (a JSON array of names); for how many ms.
-- Returns: nothing.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: W2
-- DIFFERS: these servers cannot notify a session, so there is nothing to mark: sleepers look again after a bounded pause, and a
--          library rings for what its own process enqueues. The routine is there so that one program runs on every engine.
CREATE PROCEDURE turno.wait(IN p_queues LONGTEXT, IN p_ttl_ms BIGINT)
BEGIN
    IF p_ttl_ms IS NULL OR p_ttl_ms NOT BETWEEN 1 AND 3600000 THEN
        CALL turno.raise_error(31001, 'a wait has 1..3600000 ms');
    END IF;
    IF NOT COALESCE(JSON_VALID(p_queues) AND JSON_TYPE(p_queues) = 'ARRAY', FALSE) THEN
        CALL turno.raise_error(31001, 'a wait names its queues as a JSON array');
    END IF;
END
