-- enqueue_shape: the jobs of a batch as rows.
-- Takes: a JSON array of objects. Returns: per object its place (from 1) and its columns; NULL for what is missing.
-- Raises: what OPENJSON raises for a text that is no JSON, or a number that is none
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: E7
-- DIFFERS: a table-valued parameter would spare the parsing. But its type cannot be changed while a routine uses it, each role
--          would need rights on it, and several drivers cannot send one; JSON text any client can send.
CREATE OR ALTER FUNCTION turno.enqueue_shape(@jobs nvarchar(max)) RETURNS TABLE
AS
RETURN
    SELECT CONVERT(int, a.[key]) + 1 AS place, r.queue, r.kind, r.payload, r.priority, r.run_at, r.max_attempts, r.max_run_ms,
           r.unique_key, r.idempotency_key, r.traceparent
    FROM OPENJSON(@jobs) a
    CROSS APPLY OPENJSON(a.[value]) WITH (
        queue nvarchar(max) '$.queue', kind nvarchar(max) '$.kind', payload nvarchar(max) '$.payload', priority bigint '$.priority',
        run_at datetime2(6) '$.run_at', max_attempts bigint '$.max_attempts', max_run_ms bigint '$.max_run_ms',
        unique_key nvarchar(max) '$.unique_key', idempotency_key nvarchar(max) '$.idempotency_key',
        traceparent nvarchar(max) '$.traceparent') r;
