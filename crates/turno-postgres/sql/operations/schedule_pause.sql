-- schedule_pause: once this has committed nothing of the schedule is fired, until it is resumed.
-- Takes: its name.
-- Returns: nothing.
-- Raises: TU005
-- Transaction: joins the caller's, or owns its own
-- Writes: schedule
-- Locks: the schedule's row
-- Rules: K8
CREATE OR REPLACE FUNCTION turno.schedule_pause(p_name text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    UPDATE turno.schedule s
    SET paused_at = coalesce(s.paused_at, v_now),
        revision = s.revision + CASE WHEN s.paused_at IS NULL THEN 1 ELSE 0 END,
        updated_at = CASE WHEN s.paused_at IS NULL THEN v_now ELSE s.updated_at END
    WHERE s.name = p_name;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no schedule %', quote_literal(p_name) USING ERRCODE = 'TU005';
    END IF;
END $$;
