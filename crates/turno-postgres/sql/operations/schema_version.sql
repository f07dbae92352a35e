-- schema_version: the version of this schema and the oldest binary that may use it.
-- Takes: nothing.
-- Returns: both numbers.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: X2
CREATE OR REPLACE FUNCTION turno.schema_version(OUT version bigint, OUT oldest_binary bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$ SELECT m.version, m.oldest_binary FROM turno.meta m $$;
