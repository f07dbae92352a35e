-- rank_of: the one sort key of a queue. Lower is served first.
-- Takes: when the job is due, its priority, the queue's aging (NULL: strict).
-- Returns: bigint. Strict priority is a step of 2^52 microseconds (142 years), aging one of its interval.
-- Raises: nothing: priority and aging are bounded by CHECKs, and a ready job's due time lies in the past
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: C3, C9
CREATE OR REPLACE FUNCTION turno.rank_of(p_run_at timestamptz, p_priority integer, p_aging_ms bigint) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT (extract(epoch FROM p_run_at) * 1000000)::bigint + p_priority * coalesce(p_aging_ms * 1000, 4503599627370496) $$;
