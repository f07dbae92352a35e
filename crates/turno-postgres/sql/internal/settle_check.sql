-- settle_check: refuses a batch of proofs that is too long or uneven.
-- Takes: the three arrays. Returns: nothing.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: O2
CREATE OR REPLACE FUNCTION turno.settle_check(p_jobs bigint[], p_attempts bigint[], p_tokens uuid[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF coalesce(cardinality(p_jobs), 0) NOT BETWEEN 1 AND 1000 OR cardinality(p_attempts) IS DISTINCT FROM cardinality(p_jobs)
        OR cardinality(p_tokens) IS DISTINCT FROM cardinality(p_jobs) OR array_position(p_jobs, NULL) IS NOT NULL
        OR array_position(p_attempts, NULL) IS NOT NULL OR array_position(p_tokens, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'a call takes 1..1000 jobs, attempts and tokens, as many of each, without NULL' USING ERRCODE = 'TU001';
    END IF;
END $$;
