-- schedule_remove: removes a schedule. Its jobs stay, and so do the records of its instants until prune removes them.
-- Takes: its name.
-- Returns: nothing.
-- Raises: TU005
-- Transaction: joins the caller's, or owns its own
-- Writes: schedule
-- Locks: the schedule's row
-- Rules: K1
CREATE OR REPLACE FUNCTION turno.schedule_remove(p_name text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
BEGIN
    DELETE FROM turno.schedule s WHERE s.name = p_name;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no schedule %', quote_literal(p_name) USING ERRCODE = 'TU005';
    END IF;
END $$;
