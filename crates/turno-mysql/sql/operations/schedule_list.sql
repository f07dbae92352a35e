-- schedule_list: a page of schedules by name.
-- Takes: the name of the one to show or NULL; the name behind which to go on or NULL; rows of a page.
-- Returns: rows of turno.schedule.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V2
CREATE PROCEDURE turno.schedule_list(IN p_name VARCHAR(255), IN p_after VARCHAR(255), IN p_limit BIGINT)
BEGIN
    DECLARE v_name, v_after VARBINARY(1020);
    SET v_name = p_name, v_after = COALESCE(p_after, '');
    CALL turno.batch_check(p_limit);
    SELECT CONVERT(s.name USING utf8mb4) AS name, CONVERT(s.cron USING utf8mb4) AS cron, CONVERT(s.zone USING utf8mb4) AS zone,
           CONVERT(s.queue USING utf8mb4) AS queue, CONVERT(s.kind USING utf8mb4) AS kind, s.payload, s.priority, s.max_attempts,
           s.max_run_ms, CONVERT(s.unique_key USING utf8mb4) AS unique_key, s.missed, s.missed_limit, s.revision, s.done_until,
           s.next_at, s.paused_at, s.last_at, s.last_job, s.created_at, s.updated_at
    FROM turno.schedule s FORCE INDEX (PRIMARY)
    WHERE s.name >= COALESCE(v_name, v_after) AND (v_name IS NULL OR s.name <= v_name) AND (v_name IS NOT NULL OR s.name > v_after)
    ORDER BY s.name LIMIT p_limit;
END
