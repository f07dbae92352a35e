-- heartbeat: extends leases, each never beyond the end of its attempt's time.
-- Takes: proofs as a JSON array of at most 1000 objects with job, attempt, token and started (missing: true); the lease in ms.
-- Returns: per proof its place: held (until when, for how many ms from now, whether a cancel was requested), busy, lost or finished.
-- Raises: TU001
-- Transaction: joins the caller's, or owns its own
-- Writes: job
-- Locks: job rows in id order; skips those that somebody holds, so one row in an open transaction delays no other lease
-- Rules: O2, H1, H2, H3, H4
-- DIFFERS: MySQL wants to hear that only job rows are locked, MariaDB does not know the words.
CREATE PROCEDURE turno.heartbeat(IN p_beats LONGTEXT, IN p_lease_ms BIGINT)
BEGIN
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE v_own BOOLEAN;
    DECLARE EXIT HANDLER FOR 1213
    BEGIN
        CALL turno.lost_work(v_own);
        RESIGNAL;
    END;
    DECLARE EXIT HANDLER FOR 1265
    BEGIN
        CALL turno.undo_work(v_own);
        RESIGNAL SQLSTATE '22001' SET MYSQL_ERRNO = 1406;
    END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        CALL turno.undo_work(v_own);
        RESIGNAL;
    END;
    IF NOT COALESCE(JSON_VALID(p_beats) AND JSON_TYPE(p_beats) = 'ARRAY', FALSE) OR JSON_LENGTH(p_beats) > 1000
       OR COALESCE(p_lease_ms, 0) NOT BETWEEN 1 AND 86400000 THEN
        CALL turno.raise_error(31001, 'a heartbeat takes a JSON array of at most 1000 leases of 1..86400000 ms');
    END IF;
    CALL turno.begin_work(v_own);
    UPDATE (SELECT j.id, b.started
            FROM JSON_TABLE(p_beats, '$[*]' COLUMNS (job BIGINT PATH '$.job', attempt BIGINT PATH '$.attempt',
                                                     token CHAR(36) PATH '$.token', started VARCHAR(5) PATH '$.started')) b
            STRAIGHT_JOIN turno.job j FORCE INDEX (PRIMARY) ON j.id = b.job AND j.attempt = b.attempt AND j.token = UNHEX(REPLACE(b.token, '-', ''))
            ORDER BY j.id LIMIT 1000 FOR UPDATE /*!80000 OF j */ SKIP LOCKED) kept
    STRAIGHT_JOIN turno.job j FORCE INDEX (PRIMARY) ON j.id = kept.id
    SET j.lease_until = LEAST(v_now + p_lease_ms * 1000, j.run_until),
        j.started_at = IF(j.started_at IS NULL AND COALESCE(kept.started, 'true') IN ('true', '1'), v_now, j.started_at);
    SELECT b.place, b.job AS job_id,
           CASE WHEN j.lease_until = LEAST(v_now + p_lease_ms * 1000, j.run_until) THEN 'held' WHEN j.id IS NOT NULL THEN 'busy'
                WHEN f.id IS NOT NULL OR a.job_id IS NOT NULL THEN 'finished' ELSE 'lost' END AS answer,
           j.lease_until AS held_until, CEIL((j.lease_until - v_now) / 1000) AS held_for_ms,
           j.cancel_requested_at IS NOT NULL AS cancel_requested
    FROM JSON_TABLE(p_beats, '$[*]' COLUMNS (place FOR ORDINALITY, job BIGINT PATH '$.job', attempt BIGINT PATH '$.attempt',
                                             token CHAR(36) PATH '$.token')) b
    LEFT JOIN turno.job j FORCE INDEX (PRIMARY) ON j.id = b.job AND j.attempt = b.attempt AND j.token = UNHEX(REPLACE(b.token, '-', ''))
    LEFT JOIN turno.finished_job f FORCE INDEX (PRIMARY) ON j.id IS NULL AND f.id = b.job AND f.attempt = b.attempt
        AND f.token_hash = UNHEX(SHA2(UNHEX(REPLACE(b.token, '-', '')), 256))
    LEFT JOIN turno.attempt a FORCE INDEX (PRIMARY) ON j.id IS NULL AND a.job_id = b.job AND a.attempt = b.attempt
        AND a.token_hash = UNHEX(SHA2(UNHEX(REPLACE(b.token, '-', '')), 256))
    ORDER BY b.place;
    CALL turno.end_work(v_own);
END
