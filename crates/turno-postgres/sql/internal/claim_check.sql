-- claim_check: refuses what a claim cannot mean.
-- Takes: the arguments of claim. Returns: nothing.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: C4
CREATE OR REPLACE FUNCTION turno.claim_check(
    p_queues text[], p_worker text, p_limit integer, p_lease_ms bigint, p_token uuid, p_from_ranks bigint[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    v_bad text := CASE
        WHEN coalesce(cardinality(p_queues), 0) NOT BETWEEN 1 AND 100 THEN 'a claim names 1..100 queues'
        WHEN array_lower(p_queues, 1) <> 1 OR array_lower(p_from_ranks, 1) <> 1 THEN 'a claim counts its queues from 1'
        WHEN p_worker IS NULL OR octet_length(p_worker) NOT BETWEEN 1 AND 200 THEN 'the worker''s name has 1..200 bytes'
        WHEN p_limit IS NULL OR p_limit NOT BETWEEN 1 AND 1000 THEN 'a claim takes 1..1000 jobs'
        WHEN p_lease_ms IS NULL OR p_lease_ms NOT BETWEEN 1 AND 86400000 THEN 'a lease has 1..86400000 ms'
        WHEN p_token IS NULL OR p_token = '00000000-0000-0000-0000-000000000000' THEN 'the nil UUID is not a token'
        WHEN cardinality(p_from_ranks) <> cardinality(p_queues) THEN 'from_ranks has another length than queues' END;
BEGIN
    IF v_bad IS NOT NULL THEN
        RAISE EXCEPTION '%', v_bad USING ERRCODE = 'TU001';
    END IF;
END $$;
