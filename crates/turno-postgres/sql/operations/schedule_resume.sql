-- schedule_resume: ends a pause. Nothing is fired for its time: the schedule counts from now, and is due at once, so that whoever ticks
-- next asks a calendar for the next instant. Resuming what is not paused changes nothing.
-- Takes: its name.
-- Returns: nothing.
-- Raises: TU005
-- Transaction: joins the caller's, or owns its own
-- Writes: schedule
-- Locks: the schedule's row
-- Rules: K8
CREATE OR REPLACE FUNCTION turno.schedule_resume(p_name text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    UPDATE turno.schedule s
    SET paused_at = NULL, revision = s.revision + 1, updated_at = v_now,
        done_until = greatest(s.done_until, v_now), next_at = greatest(s.done_until, v_now)
    WHERE s.name = p_name AND s.paused_at IS NOT NULL;
    IF FOUND THEN
        PERFORM turno.ring_all();
    ELSIF NOT EXISTS (SELECT FROM turno.schedule s WHERE s.name = p_name) THEN
        RAISE EXCEPTION 'there is no schedule %', quote_literal(p_name) USING ERRCODE = 'TU005';
    END IF;
END $$;
