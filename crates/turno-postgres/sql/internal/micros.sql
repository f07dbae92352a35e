-- micros: an instant as microseconds since 1970, the unit of rank.
-- Takes: at. Returns: bigint.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: C3
CREATE OR REPLACE FUNCTION turno.micros(p_at timestamptz) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT (extract(epoch FROM p_at) * 1000000)::bigint $$;
