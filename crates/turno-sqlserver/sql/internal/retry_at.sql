-- retry_at: when a failed job is tried again by its queue's policy: the base doubled with every charged failure up to the cap, less up
-- to a quarter at random.
-- Takes: failures, the base and the cap in ms, now. Returns: the instant.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: F4
CREATE OR ALTER PROCEDURE turno.retry_at @failures int, @base_ms bigint, @cap_ms bigint, @now datetime2(6), @run_at datetime2(6) OUTPUT
AS
BEGIN
    -- 2^45 ms is beyond every cap, and doubling stops there, long before a double overflows.
    DECLARE @ms float = @base_ms * POWER(CONVERT(float, 2), IIF(@failures > 46, 45, @failures - 1));
    DECLARE @us bigint;
    SET @ms = IIF(@ms > @cap_ms, @cap_ms, @ms);
    SET @ms = @ms * (1 - RAND() / 4);
    SET @us = CEILING(IIF(@ms < 1, 1, @ms) * 1000);
    SET @run_at = DATEADD(microsecond, @us % 1000000, DATEADD(second, @us / 1000000, @now));
END;
