-- batch_check: refuses an unbounded batch of maintenance.
-- Takes: the most rows to touch. Returns: nothing.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: R1
CREATE PROCEDURE turno.batch_check(IN p_limit BIGINT)
BEGIN
    IF p_limit IS NULL OR p_limit NOT BETWEEN 1 AND 1000 THEN
        CALL turno.raise_error(31001, CONCAT('a batch has 1..1000 rows, not ', COALESCE(p_limit, 'NULL')));
    END IF;
END
