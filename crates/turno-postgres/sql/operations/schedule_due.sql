-- schedule_due: the schedules whose time has come, longest due first. It only looks: see schedule_fire.
-- Takes: the most rows.
-- Returns: per schedule what a calendar needs, with the database's now and in how many ms the next one is due that is not yet;
--          one row without a schedule if none is due.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: K2
CREATE OR REPLACE FUNCTION turno.schedule_due(p_limit integer DEFAULT 100)
RETURNS TABLE (now timestamptz, next_in_ms bigint, name text, cron text, zone text, missed text, missed_limit integer, revision bigint,
    done_until timestamptz, next_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_now  timestamptz := clock_timestamp();
    v_next bigint;
BEGIN
    PERFORM turno.batch_check(p_limit);
    SELECT ceil(extract(epoch FROM s.next_at - v_now) * 1000) INTO v_next FROM turno.schedule s
    WHERE s.paused_at IS NULL AND s.next_at > v_now ORDER BY s.next_at LIMIT 1;
    RETURN QUERY
    SELECT v_now, v_next, s.name, s.cron, s.zone, s.missed, s.missed_limit, s.revision, s.done_until, s.next_at
    FROM turno.schedule s WHERE s.paused_at IS NULL AND s.next_at <= v_now ORDER BY s.next_at, s.name LIMIT p_limit;
    IF NOT FOUND THEN
        RETURN QUERY SELECT v_now, v_next, NULL::text, NULL::text, NULL::text, NULL::text, NULL::integer, NULL::bigint,
                            NULL::timestamptz, NULL::timestamptz;
    END IF;
END $$;
