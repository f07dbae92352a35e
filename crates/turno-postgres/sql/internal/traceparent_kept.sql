-- traceparent_kept: the header of W3C Trace Context that is kept with a job. Tracing must not make an enqueue fail, so what is no such
-- header is dropped.
-- Takes: any text. Returns: it, or NULL.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: E12
CREATE OR REPLACE FUNCTION turno.traceparent_kept(p_text text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT CASE WHEN octet_length(p_text) = 55
                       AND p_text ~ '^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$' THEN p_text END $$;
