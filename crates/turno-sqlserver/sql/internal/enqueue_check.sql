-- enqueue_check: what the queue's settings and the contract's limits make of one new job.
-- Takes: its columns, with NULL for the queue's defaults; now.
-- Returns: one row: what is not allowed, in words, or NULL; the due time, budget, time per attempt, state and rank.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: T2, T3, E8, E9, E11
CREATE OR ALTER FUNCTION turno.enqueue_check(
    @queue nvarchar(max), @kind nvarchar(max), @has_payload bit, @priority bigint, @run_at datetime2(6), @max_attempts bigint,
    @max_run_ms bigint, @unique_key nvarchar(max), @idempotency_key nvarchar(max), @now datetime2(6)) RETURNS TABLE
AS
RETURN
    SELECT CASE
               WHEN turno.bad_name(N'queue', @queue) IS NOT NULL THEN turno.bad_name(N'queue', @queue)
               WHEN turno.bad_name(N'kind', @kind) IS NOT NULL THEN turno.bad_name(N'kind', @kind)
               WHEN COALESCE(@has_payload, 0) = 0 THEN N'payload is NULL'
               WHEN @run_at > '9999-12-31T23:59:59.999' THEN N'run_at is after the year 9999'
               WHEN DATEDIFF_BIG(millisecond, @now, @run_at) > q.run_at_horizon_ms
                   THEN CONCAT(N'run_at is beyond the horizon of the queue, ', q.run_at_horizon_ms, N' ms')
               WHEN @max_attempts NOT BETWEEN 1 AND q.max_attempts_limit
                   THEN CONCAT(N'max_attempts ', @max_attempts, N' is not in 1..', q.max_attempts_limit)
               WHEN @max_run_ms NOT BETWEEN 1 AND q.max_run_limit_ms
                   THEN CONCAT(N'max_run_ms ', @max_run_ms, N' is not in 1..', q.max_run_limit_ms)
               WHEN @priority NOT BETWEEN -1000 AND 1000 THEN CONCAT(N'priority ', @priority, N' is not in -1000..1000')
               WHEN turno.bad_key(N'unique_key', @unique_key) IS NOT NULL THEN turno.bad_key(N'unique_key', @unique_key)
               ELSE turno.bad_key(N'idempotency_key', @idempotency_key) END AS bad,
           d.due_at, COALESCE(@max_attempts, q.max_attempts) AS max_attempts, COALESCE(@max_run_ms, q.max_run_ms) AS max_run_ms,
           CASE WHEN d.due_at <= @now THEN 'ready' ELSE 'scheduled' END AS state,
           -- A priority that is refused must not overflow first.
           CASE WHEN d.due_at <= @now AND COALESCE(@priority, 0) BETWEEN -1000 AND 1000
                THEN DATEDIFF_BIG(microsecond, '1970-01-01', d.due_at) + COALESCE(@priority, 0) * q.step END AS rank
    FROM (SELECT 1 AS one) always
    OUTER APPLY turno.queue_settings(CONVERT(varbinary(400), @queue)) q
    -- Up to the next full millisecond (rule T3). The last one of the year 9999 is refused above and only must not overflow here.
    CROSS APPLY (SELECT (1000 - DATEPART(microsecond, @run_at) % 1000) % 1000 AS rest) r
    CROSS APPLY (SELECT CASE WHEN @run_at > '9999-12-31T23:59:59.999' THEN @run_at
                             ELSE DATEADD(microsecond, r.rest, @run_at) END AS at) u
    CROSS APPLY (SELECT CASE WHEN u.at > @now THEN u.at ELSE @now END AS due_at) d;
