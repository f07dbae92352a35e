-- claim_check: refuses what a claim cannot mean.
-- Takes: the arguments of claim. Returns: nothing.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: C4
CREATE PROCEDURE turno.claim_check(
    IN p_queues LONGTEXT, IN p_worker VARCHAR(255), IN p_limit BIGINT, IN p_lease_ms BIGINT, IN p_token BINARY(16),
    IN p_from_ranks LONGTEXT)
BEGIN
    DECLARE v_bad VARCHAR(128) DEFAULT CASE
        WHEN NOT COALESCE(JSON_VALID(p_queues) AND JSON_TYPE(p_queues) = 'ARRAY', FALSE) THEN 'a claim names its queues as a JSON array'
        WHEN NOT JSON_LENGTH(p_queues) BETWEEN 1 AND 100 THEN 'a claim names 1..100 queues'
        WHEN COALESCE(LENGTH(p_worker), 0) NOT BETWEEN 1 AND 200 THEN 'the worker''s name has 1..200 bytes'
        WHEN p_limit IS NULL OR p_limit NOT BETWEEN 1 AND 1000 THEN 'a claim takes 1..1000 jobs'
        WHEN p_lease_ms IS NULL OR p_lease_ms NOT BETWEEN 1 AND 86400000 THEN 'a lease has 1..86400000 ms'
        WHEN p_token IS NULL OR p_token = UNHEX(REPEAT('0', 32)) THEN 'the nil UUID is not a token'
        WHEN NOT COALESCE(JSON_VALID(p_from_ranks), TRUE) THEN 'from_ranks is a JSON array'
        WHEN JSON_LENGTH(p_from_ranks) <> JSON_LENGTH(p_queues) THEN 'from_ranks has another length than queues' END;
    IF v_bad IS NOT NULL THEN
        CALL turno.raise_error(31001, v_bad);
    END IF;
END
