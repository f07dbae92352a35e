-- schedule_run_add: makes one instant of a schedule a job, unless it is one already.
-- Takes: the schedule's name, the instant, now; whether the transaction is our own.
-- Returns: the job's id; NULL if the instant had one.
-- Raises: TU001 beyond a limit of the queue
-- Transaction: joins the caller's, which holds the schedule's row
-- Writes: schedule_run, unique_key, job
-- Locks: the record of the instant, then the unique key
-- Rules: K1, K5, K6, E5, E11
CREATE PROCEDURE turno.schedule_run_add(IN p_name VARCHAR(255), IN p_at BIGINT, IN p_now BIGINT, IN p_own BOOLEAN, OUT p_id BIGINT)
BEGIN
    DECLARE v_name VARBINARY(1020) DEFAULT p_name;
    DECLARE v_queue, v_kind VARCHAR(255);
    DECLARE v_key VARCHAR(1024);
    DECLARE v_payload LONGTEXT;
    DECLARE v_priority, v_attempts, v_run_ms, v_there BIGINT;
    DECLARE v_created BOOLEAN;
    -- A record that is there has its job; 0 says that it is ours.
    INSERT INTO turno.schedule_run (schedule, instant, fired_at, job_id) VALUES (v_name, p_at, p_now, 0)
    ON DUPLICATE KEY UPDATE job_id = job_id;
    SELECT r.job_id INTO v_there FROM turno.schedule_run r WHERE r.schedule = v_name AND r.instant = p_at FOR UPDATE;
    SET p_id = NULL;
    IF v_there = 0 THEN
        SELECT CONVERT(s.queue USING utf8mb4), CONVERT(s.kind USING utf8mb4), s.priority, s.max_attempts, s.max_run_ms,
               CONVERT(s.unique_key USING utf8mb4),
               REPLACE(s.payload, '{instant}', DATE_FORMAT(TIMESTAMP('1970-01-01 00:00:00') + INTERVAL p_at MICROSECOND, '%Y-%m-%dT%H:%i:%sZ'))
        INTO v_queue, v_kind, v_priority, v_attempts, v_run_ms, v_key, v_payload
        FROM turno.schedule s WHERE s.name = v_name FOR UPDATE;
        CALL turno.enqueue_row(1, v_queue, v_kind, v_payload, v_priority, NULL, v_attempts, v_run_ms, v_key, NULL, NULL, p_now, p_own, p_id,
            v_created);
        UPDATE turno.schedule_run r SET r.job_id = p_id WHERE r.schedule = v_name AND r.instant = p_at;
    END IF;
END
