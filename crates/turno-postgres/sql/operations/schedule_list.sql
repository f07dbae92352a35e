-- schedule_list: a page of schedules by name.
-- Takes: the name of the one to show or NULL; the name behind which to go on or NULL; rows of a page.
-- Returns: rows of turno.schedule.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V2
CREATE OR REPLACE FUNCTION turno.schedule_list(p_name text DEFAULT NULL, p_after text DEFAULT NULL, p_limit integer DEFAULT 100)
RETURNS SETOF turno.schedule
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
BEGIN
    PERFORM turno.batch_check(p_limit);
    IF p_name IS NOT NULL THEN
        RETURN QUERY SELECT s.* FROM turno.schedule s WHERE s.name = p_name;
    ELSE
        RETURN QUERY SELECT s.* FROM turno.schedule s WHERE s.name > coalesce(p_after, '') ORDER BY s.name LIMIT p_limit;
    END IF;
END $$;
