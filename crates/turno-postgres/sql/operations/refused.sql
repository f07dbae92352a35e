-- refused: a page of the ledger of refused results, newest first.
-- Takes: a job or NULL; the line below which to go on or NULL; rows of a page.
-- Returns: lines of the ledger.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: S7, V2
CREATE OR REPLACE FUNCTION turno.refused(p_job bigint DEFAULT NULL, p_before bigint DEFAULT NULL, p_limit integer DEFAULT 100)
RETURNS SETOF turno.refused
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
BEGIN
    PERFORM turno.batch_check(p_limit);
    IF p_job IS NULL THEN
        RETURN QUERY SELECT r.* FROM turno.refused r WHERE r.id < coalesce(p_before, 9223372036854775807)
                     ORDER BY r.id DESC LIMIT p_limit;
    ELSE
        RETURN QUERY SELECT r.* FROM turno.refused r WHERE r.job_id = p_job AND r.id < coalesce(p_before, 9223372036854775807)
                     ORDER BY r.id DESC LIMIT p_limit;
    END IF;
END $$;
