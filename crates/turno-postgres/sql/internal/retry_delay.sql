-- retry_delay: how long a failed job waits: the base doubled with every failure, up to the cap, less up to a quarter at random.
-- Takes: failures so far (at least 1), base and cap in ms. Returns: an interval, positive and at most the cap.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: F4
CREATE OR REPLACE FUNCTION turno.retry_delay(p_failures integer, p_base_ms bigint, p_cap_ms bigint) RETURNS interval
LANGUAGE sql VOLATILE
-- 2^45 ms is beyond every cap, and doubling stops there, long before a double overflows.
AS $$ SELECT make_interval(secs => greatest(1, least(p_cap_ms, p_base_ms * power(2, least(p_failures - 1, 45)))
                                               * (1 - random() / 4)) / 1000) $$;
