-- heartbeat_keep: extends the leases of a batch whose rows nobody holds.
-- Takes: the batch, the lease in ms, now.
-- Returns: what is held now, as a JSON array of objects with job, attempt, token, answer, held_until, held_for_ms, cancel_requested.
-- Raises: nothing
-- Transaction: joins the caller's, at READ COMMITTED
-- Writes: job
-- Locks: job rows in id order; skips those that somebody holds
-- Rules: O2, H1, H2, H3, H4
CREATE OR ALTER PROCEDURE turno.heartbeat_keep @beats nvarchar(max), @lease_ms bigint, @now datetime2(6), @kept nvarchar(max) OUTPUT
AS
BEGIN
    DECLARE @proofs TABLE (job bigint NOT NULL, attempt bigint NOT NULL, token uniqueidentifier NOT NULL, started bit NOT NULL,
        PRIMARY KEY (job, attempt, token));
    DECLARE @held TABLE (job bigint NOT NULL PRIMARY KEY, attempt bigint NOT NULL, token uniqueidentifier NOT NULL,
        held_until datetime2(6) NOT NULL, cancel_at datetime2(6));
    DECLARE @until datetime2(6) = DATEADD(millisecond, @lease_ms, @now);
    INSERT INTO @proofs (job, attempt, token, started)
    SELECT b.job, b.attempt, b.token, MAX(CONVERT(int, b.started)) FROM turno.settle_shape(@beats) b
    WHERE b.job IS NOT NULL AND b.attempt IS NOT NULL AND b.token IS NOT NULL
    GROUP BY b.job, b.attempt, b.token;
    UPDATE j
    SET lease_until = IIF(@until < j.run_until, @until, j.run_until),
        started_at = IIF(j.started_at IS NULL AND p.started = 1, @now, j.started_at)
    OUTPUT inserted.id, inserted.attempt, inserted.token, inserted.lease_until, inserted.cancel_requested_at
        INTO @held (job, attempt, token, held_until, cancel_at)
    FROM (SELECT TOP (1000) o.job, o.attempt, o.token, o.started FROM @proofs o ORDER BY o.job, o.attempt, o.token) p
    INNER LOOP JOIN turno.unfinished_job j WITH (UPDLOCK, READPAST, READCOMMITTEDLOCK, ROWLOCK, FORCESEEK)
        ON j.id = p.job AND j.attempt = p.attempt AND j.token = p.token
    OPTION (FORCE ORDER, MAXDOP 1);
    SET @kept = COALESCE((
        SELECT h.job, h.attempt, h.token, 'held' AS answer, h.held_until,
               CONVERT(bigint, CEILING(DATEDIFF_BIG(microsecond, @now, h.held_until) / 1000.0)) AS held_for_ms,
               CONVERT(bit, IIF(h.cancel_at IS NULL, 0, 1)) AS cancel_requested
        FROM @held h FOR JSON PATH), N'[]');
END;
