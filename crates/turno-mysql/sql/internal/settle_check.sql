-- settle_check: refuses a batch that is too long or asks for impossible delays.
-- Takes: the batch; whether its verb knows delays. Returns: nothing.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: O2, F5
CREATE PROCEDURE turno.settle_check(IN p_settles LONGTEXT, IN p_delays BOOLEAN)
BEGIN
    IF NOT COALESCE(JSON_VALID(p_settles) AND JSON_TYPE(p_settles) = 'ARRAY', FALSE) THEN
        CALL turno.raise_error(31001, 'a settle takes a JSON array of objects with job, attempt and token');
    END IF;
    IF JSON_LENGTH(p_settles) NOT BETWEEN 1 AND 1000 THEN
        CALL turno.raise_error(31001, 'a settle takes 1..1000 jobs');
    END IF;
    IF p_delays AND EXISTS (SELECT 1 FROM JSON_TABLE(p_settles, '$[*]' COLUMNS (retry_ms BIGINT PATH '$.retry_ms' ERROR ON ERROR,
                                                                   delay_ms BIGINT PATH '$.delay_ms' ERROR ON ERROR)) r
               WHERE r.retry_ms NOT BETWEEN -1 AND 31536000000 OR r.delay_ms NOT BETWEEN 0 AND 31536000000) THEN
        CALL turno.raise_error(31001, 'a delay has 0..31536000000 ms, and -1 means no retry');
    END IF;
END
