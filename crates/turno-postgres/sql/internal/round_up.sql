-- round_up: an instant at the precision that every engine promises, never earlier than it was.
-- Takes: an instant. Returns: it, rounded up to 1 ms.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: T3
CREATE OR REPLACE FUNCTION turno.round_up(p_at timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT date_trunc('milliseconds', p_at + interval '999 microseconds') $$;
