-- batch_check: refuses an unbounded batch of maintenance.
-- Takes: the most rows to touch. Returns: nothing.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: R1
CREATE OR REPLACE FUNCTION turno.batch_check(p_limit integer) RETURNS void
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF p_limit IS NULL OR p_limit NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'a batch has 1..1000 rows, not %', p_limit USING ERRCODE = 'TU001';
    END IF;
END $$;
