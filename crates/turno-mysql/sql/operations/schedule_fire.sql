-- schedule_fire: makes instants of a schedule jobs and moves it on, if it is still what was seen. Many may ask for the same; one of them
-- does it, and nobody waits: who meets another's lock is told `already`.
-- Takes: its name and the revision that was seen; until when everything is dealt with by this, in microseconds since 1970, at most now;
--        the instants that become jobs as a JSON array of at most 100 such numbers, ascending, after done_until and at most until; the
--        first instant after until, NULL if there is none.
-- Returns: per instant that became a job its answer `done`, the instant, the job's id; one row without a job if there is none.
-- Raises: TU001 for instants that cannot be, or if the queue's settings refuse the job
-- Transaction: joins the caller's, or owns its own
-- Writes: schedule, schedule_run, unique_key, job
-- Locks: the schedule's row, skipped if somebody holds it; then the unique key
-- Rules: K1, K2, K5, K6, E5, E11
CREATE PROCEDURE turno.schedule_fire(
    IN p_name VARCHAR(255), IN p_revision BIGINT, IN p_until BIGINT, IN p_instants LONGTEXT, IN p_next_at BIGINT)
BEGIN
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE v_name VARBINARY(1020) DEFAULT p_name;
    DECLARE v_own BOOLEAN;
    DECLARE v_done_until, v_before, v_at, v_id, v_last_at, v_last_job BIGINT;
    DECLARE v_place INT DEFAULT 0;
    DECLARE v_n INT DEFAULT JSON_LENGTH(COALESCE(p_instants, '[]'));
    DECLARE v_fired LONGTEXT DEFAULT '[]';
    -- MariaDB tells a deadlock by 1467 when it was over the counter of the ids.
    DECLARE EXIT HANDLER FOR 1213, 1467
    BEGIN
        CALL turno.lost_work(v_own);
        RESIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213;
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
    CALL turno.begin_work(v_own);
    SELECT s.done_until INTO v_done_until FROM turno.schedule s
    WHERE s.name = v_name AND s.revision = p_revision AND s.paused_at IS NULL FOR UPDATE SKIP LOCKED;
    IF v_done_until IS NOT NULL THEN
        IF COALESCE(p_until NOT BETWEEN v_done_until AND v_now, TRUE) OR p_next_at <= p_until OR COALESCE(v_n, 101) > 100 THEN
            CALL turno.raise_error(31001, 'a schedule fires at most 100 instants, and none ahead of the clock');
        END IF;
        SET v_before = v_done_until;
        WHILE v_place < v_n DO
            SET v_at = CAST(JSON_UNQUOTE(JSON_EXTRACT(p_instants, CONCAT('$[', v_place, ']'))) AS SIGNED), v_place = v_place + 1;
            IF COALESCE(v_at NOT BETWEEN v_before + 1 AND p_until, TRUE) THEN
                CALL turno.raise_error(31001, 'a schedule fires instants after done_until and at most until, ascending');
            END IF;
            CALL turno.schedule_run_add(p_name, v_at, v_now, v_own, v_id);
            IF v_id IS NOT NULL THEN
                SET v_fired = JSON_ARRAY_APPEND(v_fired, '$', JSON_ARRAY(v_at, v_id)), v_last_at = v_at, v_last_job = v_id;
            END IF;
            SET v_before = v_at;
        END WHILE;
        UPDATE turno.schedule s
        SET s.revision = s.revision + 1, s.done_until = p_until, s.next_at = p_next_at, s.last_at = COALESCE(v_last_at, s.last_at),
            s.last_job = COALESCE(v_last_job, s.last_job)
        WHERE s.name = v_name;
    END IF;
    CALL turno.end_work(v_own);
    SELECT IF(v_done_until IS NULL, 'already', 'done') AS answer, r.instant, r.job_id
    FROM (SELECT 1 AS one) o
    LEFT JOIN JSON_TABLE(v_fired, '$[*]' COLUMNS (instant BIGINT PATH '$[0]', job_id BIGINT PATH '$[1]')) r ON TRUE
    ORDER BY r.instant;
END
