-- refused: a page of the ledger of refused results, newest first.
-- Takes: a job or NULL; the line below which to go on or NULL; rows of a page.
-- Returns: lines of the ledger.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: S7, V2
CREATE PROCEDURE turno.refused(IN p_job BIGINT, IN p_before BIGINT, IN p_limit BIGINT)
BEGIN
    CALL turno.batch_check(p_limit);
    IF p_job IS NULL THEN
        SELECT r.id, r.job_id, r.attempt, r.owner_attempt, r.times, r.first_at, r.last_at, r.verb,
               CONVERT(r.queue USING utf8mb4) AS queue, r.state, CONVERT(r.worker USING utf8mb4) AS worker,
               CONVERT(r.owner USING utf8mb4) AS owner, r.reason, r.detail
        FROM turno.refused r FORCE INDEX (PRIMARY)
        WHERE r.id < COALESCE(p_before, 9223372036854775807) ORDER BY r.id DESC LIMIT p_limit;
    ELSE
        SELECT r.id, r.job_id, r.attempt, r.owner_attempt, r.times, r.first_at, r.last_at, r.verb,
               CONVERT(r.queue USING utf8mb4) AS queue, r.state, CONVERT(r.worker USING utf8mb4) AS worker,
               CONVERT(r.owner USING utf8mb4) AS owner, r.reason, r.detail
        FROM turno.refused r FORCE INDEX (refused_once)
        WHERE r.job_id = p_job AND r.id < COALESCE(p_before, 9223372036854775807) ORDER BY r.id DESC LIMIT p_limit;
    END IF;
END
