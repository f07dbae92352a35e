-- reaper_hold: until when the reaper holds back. If nobody has reaped for longer than the grace there was an outage, and live
-- workers get one grace to renew their leases first. A hold that was served counts for a minute, so that a lone worker whose grace
-- is shorter than the time between its calls does not hold for ever.
-- Takes: the grace in ms (0: reap at once), now. Returns: an instant, in the past if it may reap.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: reaper, at most four times a grace
-- Locks: its one row, unless somebody else has it
-- Rules: R3
CREATE OR ALTER PROCEDURE turno.reaper_hold @grace_ms bigint, @now datetime2(6), @hold_until datetime2(6) OUTPUT
AS
BEGIN
    DECLARE @served bigint = @grace_ms + IIF(4 * @grace_ms > 60000, 4 * @grace_ms, 60000), @last datetime2(6), @seen datetime2(6),
        @from datetime2(6);
    -- A glance at two instants, for which no lock is worth waiting.
    SELECT @seen = r.last_reap_at, @from = r.hold_from FROM turno.reaper r WITH (NOLOCK);
    IF DATEDIFF_BIG(microsecond, @seen, @now) < @grace_ms * 250
    BEGIN
        SET @hold_until = DATEADD(millisecond, @grace_ms, @from);
        RETURN;
    END;
    SELECT @last = r.last_reap_at, @from = r.hold_from FROM turno.reaper r WITH (UPDLOCK, READPAST, READCOMMITTEDLOCK, ROWLOCK);
    IF @last IS NULL
    BEGIN
        -- Somebody else who holds the row is deciding the same thing now, unless it is a forgotten transaction.
        SET @hold_until = IIF(DATEDIFF_BIG(millisecond, @seen, @now) > @served, @now, DATEADD(millisecond, @grace_ms / 4, @now));
        RETURN;
    END;
    IF @grace_ms > 0 AND DATEDIFF_BIG(microsecond, @last, @now) > @grace_ms * 1000 AND DATEDIFF_BIG(millisecond, @from, @now) > @served
        SET @from = @now;
    UPDATE turno.reaper WITH (ROWLOCK) SET last_reap_at = @now, hold_from = @from;
    SET @hold_until = DATEADD(millisecond, @grace_ms, @from);
END;
