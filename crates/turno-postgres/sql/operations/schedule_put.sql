-- schedule_put: creates or changes a schedule. The same again moves nothing. A new expression or zone counts from now, and is due at
-- once: no engine knows cron, so that whoever ticks next asks a calendar. Nothing here can tell whether the expression is one.
-- Takes: its name; the cron expression and the IANA name of its zone; queue, kind and payload of its jobs, whose {instant} becomes the
--        instant of the run; optionally their priority, failure budget, time per attempt in ms and unique key; what becomes of
--        missed instants (skip, latest, all), with all up to how many.
-- Returns: created, changed or unchanged.
-- Raises: TU001; 23502, 23514 with the constraint's name beyond a limit of a column
-- Transaction: joins the caller's, or owns its own
-- Writes: schedule
-- Locks: the schedule's row
-- Rules: K3, K7
CREATE OR REPLACE FUNCTION turno.schedule_put(
    p_name text, p_cron text, p_zone text, p_queue text, p_kind text, p_payload text, p_priority integer DEFAULT 0,
    p_max_attempts integer DEFAULT NULL, p_max_run_ms bigint DEFAULT NULL, p_unique_key text DEFAULT NULL,
    p_missed text DEFAULT 'latest', p_missed_limit integer DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_now      timestamptz := clock_timestamp();
    v_revision bigint;
BEGIN
    PERFORM turno.enqueue_check(ARRAY[p_queue], ARRAY[p_queue], ARRAY[p_kind], NULL, ARRAY[p_priority], ARRAY[p_max_attempts],
                                ARRAY[p_max_run_ms], v_now);
    INSERT INTO turno.schedule AS s (name, cron, zone, queue, kind, payload, priority, max_attempts, max_run_ms, unique_key, missed,
        missed_limit, done_until, next_at, created_at, updated_at)
    VALUES (p_name, p_cron, p_zone, p_queue, p_kind, p_payload, coalesce(p_priority, 0), p_max_attempts, p_max_run_ms, p_unique_key,
        p_missed, p_missed_limit, v_now, v_now, v_now, v_now)
    ON CONFLICT (name) DO UPDATE
    SET cron = excluded.cron, zone = excluded.zone, queue = excluded.queue, kind = excluded.kind, payload = excluded.payload,
        priority = excluded.priority, max_attempts = excluded.max_attempts, max_run_ms = excluded.max_run_ms,
        unique_key = excluded.unique_key, missed = excluded.missed, missed_limit = excluded.missed_limit,
        revision = s.revision + 1, updated_at = v_now,
        done_until = CASE WHEN (s.cron, s.zone) = (excluded.cron, excluded.zone) THEN s.done_until ELSE greatest(s.done_until, v_now) END,
        next_at = CASE WHEN (s.cron, s.zone) = (excluded.cron, excluded.zone) THEN s.next_at ELSE greatest(s.done_until, v_now) END
    WHERE (s.cron, s.zone, s.queue, s.kind, s.payload, s.priority, s.max_attempts, s.max_run_ms, s.unique_key, s.missed, s.missed_limit)
        IS DISTINCT FROM (excluded.cron, excluded.zone, excluded.queue, excluded.kind, excluded.payload, excluded.priority,
        excluded.max_attempts, excluded.max_run_ms, excluded.unique_key, excluded.missed, excluded.missed_limit)
    RETURNING s.revision INTO v_revision;
    IF v_revision IS NULL THEN
        RETURN 'unchanged';
    END IF;
    PERFORM turno.ring_all();
    RETURN CASE v_revision WHEN 1 THEN 'created' ELSE 'changed' END;
END $$;
