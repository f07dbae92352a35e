-- schedule_due: the schedules whose time has come, longest due first. It only looks: see schedule_fire.
-- Takes: the most rows.
-- Returns: per schedule what a calendar needs, with the database's now and in how many ms the next one is due that is not yet;
--          one row without a schedule if none is due.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: K2
CREATE PROCEDURE turno.schedule_due(IN p_limit BIGINT)
BEGIN
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE v_next BIGINT;
    CALL turno.batch_check(p_limit);
    SELECT MIN(s.due_at) INTO v_next FROM turno.schedule s FORCE INDEX (schedule_due) WHERE s.due_at > v_now;
    SELECT v_now AS now, (v_next - v_now + 999) DIV 1000 AS next_in_ms, CONVERT(d.name USING utf8mb4) AS name,
           CONVERT(d.cron USING utf8mb4) AS cron, CONVERT(d.zone USING utf8mb4) AS zone, d.missed, d.missed_limit, d.revision,
           d.done_until, d.next_at
    FROM (SELECT 1 AS one) o
    LEFT JOIN (SELECT s.name, s.cron, s.zone, s.missed, s.missed_limit, s.revision, s.done_until, s.next_at, s.due_at
               FROM turno.schedule s FORCE INDEX (schedule_due) WHERE s.due_at <= v_now ORDER BY s.due_at, s.name LIMIT p_limit) d
        ON TRUE
    ORDER BY d.due_at, d.name;
END
