-- schedule_put: creates or changes a schedule. The same again moves nothing. A new expression or zone counts from now, and is due at
-- once: no engine knows cron, so that whoever ticks next asks a calendar. Nothing here can tell whether the expression is one.
-- Takes: its name; the cron expression and the IANA name of its zone; queue, kind and payload of its jobs, whose {instant} becomes the
--        instant of the run; their priority, failure budget, time per attempt in ms and unique key, each of which may be NULL; what
--        becomes of missed instants (skip, latest, all), with all up to how many.
-- Returns: created, changed or unchanged.
-- Raises: TU001; 3819 (MySQL) or 4025 (MariaDB) with the constraint's name, 1406 beyond a limit of a column
-- Transaction: joins the caller's, or owns its own
-- Writes: schedule
-- Locks: the schedule's row
-- Rules: K3, K7
CREATE PROCEDURE turno.schedule_put(
    IN p_name VARCHAR(255), IN p_cron VARCHAR(255), IN p_zone VARCHAR(255), IN p_queue VARCHAR(255), IN p_kind VARCHAR(255),
    IN p_payload LONGTEXT, IN p_priority BIGINT, IN p_max_attempts BIGINT, IN p_max_run_ms BIGINT, IN p_unique_key VARCHAR(1024),
    IN p_missed VARCHAR(20), IN p_missed_limit BIGINT)
BEGIN
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE v_name, v_cron, v_zone, v_queue, v_kind VARBINARY(1020);
    DECLARE v_key VARBINARY(4096) DEFAULT p_unique_key;
    DECLARE v_own, v_same_times, v_same BOOLEAN;
    DECLARE v_revision, v_run_at, v_rank BIGINT;
    DECLARE v_attempts BIGINT DEFAULT p_max_attempts;
    DECLARE v_run_ms BIGINT DEFAULT p_max_run_ms;
    DECLARE v_state VARCHAR(9);
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
    SET v_name = p_name, v_cron = p_cron, v_zone = p_zone, v_queue = p_queue, v_kind = p_kind, p_priority = COALESCE(p_priority, 0);
    CALL turno.begin_work(v_own);
    CALL turno.enqueue_check(1, v_queue, p_payload IS NOT NULL, v_run_at, p_priority, v_attempts, v_run_ms, v_now, v_state, v_rank);
    -- Revision 0 says that it is new.
    INSERT INTO turno.schedule (name, revision, cron, zone, queue, kind, payload, priority, max_attempts, max_run_ms, unique_key, missed,
        missed_limit, done_until, next_at, created_at, updated_at)
    VALUES (v_name, 0, v_cron, v_zone, v_queue, v_kind, p_payload, p_priority, p_max_attempts, p_max_run_ms, v_key, p_missed,
        p_missed_limit, v_now, v_now, v_now, v_now)
    ON DUPLICATE KEY UPDATE revision = revision;
    SELECT s.revision, s.cron = v_cron AND s.zone = v_zone,
           s.queue = v_queue AND s.kind = v_kind AND CAST(s.payload AS BINARY) = CAST(p_payload AS BINARY) AND s.priority = p_priority
           AND s.max_attempts <=> p_max_attempts AND s.max_run_ms <=> p_max_run_ms AND s.unique_key <=> v_key
           AND s.missed = p_missed AND s.missed_limit <=> p_missed_limit
    INTO v_revision, v_same_times, v_same FROM turno.schedule s WHERE s.name = v_name FOR UPDATE;
    IF v_revision = 0 OR NOT v_same_times OR NOT v_same THEN
        UPDATE turno.schedule s
        SET s.revision = s.revision + 1, s.cron = v_cron, s.zone = v_zone, s.queue = v_queue, s.kind = v_kind, s.payload = p_payload,
            s.priority = p_priority, s.max_attempts = p_max_attempts, s.max_run_ms = p_max_run_ms, s.unique_key = v_key,
            s.missed = p_missed, s.missed_limit = p_missed_limit, s.updated_at = v_now,
            s.next_at = IF(v_same_times, s.next_at, GREATEST(s.done_until, v_now)),
            s.done_until = IF(v_same_times, s.done_until, GREATEST(s.done_until, v_now))
        WHERE s.name = v_name;
    END IF;
    CALL turno.end_work(v_own);
    SELECT CASE WHEN v_revision = 0 THEN 'created' WHEN v_same_times AND v_same THEN 'unchanged' ELSE 'changed' END AS answer;
END
