-- settle_shape: the proofs of a batch as rows.
-- Takes: a JSON array of objects. Returns: per object its place (from 1) and what belongs to the settle; NULL for what is missing.
-- Raises: what OPENJSON raises for a text that is no JSON, or a number or UUID that is none
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: O2
CREATE OR ALTER FUNCTION turno.settle_shape(@settles nvarchar(max)) RETURNS TABLE
AS
RETURN
    SELECT CONVERT(int, a.[key]) + 1 AS place, r.job, r.attempt, r.token, COALESCE(r.result, r.error) AS detail, r.error_bytes,
           COALESCE(r.retry_ms, r.delay_ms) AS delay_ms, COALESCE(r.started, 1) AS started
    FROM OPENJSON(@settles) a
    CROSS APPLY OPENJSON(a.[value]) WITH (
        job bigint '$.job', attempt bigint '$.attempt', token uniqueidentifier '$.token', result nvarchar(max) '$.result',
        error nvarchar(max) '$.error', error_bytes bigint '$.error_bytes', retry_ms bigint '$.retry_ms', delay_ms bigint '$.delay_ms',
        started bit '$.started') r;
