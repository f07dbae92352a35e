-- reaper_hold: until when the reaper holds back. If nobody has reaped for longer than the grace there was an outage, and live
-- workers get one grace to renew their leases first. A hold that was served counts for a minute, so that a lone worker whose grace
-- is shorter than the time between its calls does not hold for ever.
-- Takes: the grace in ms (0: reap at once), now. Returns: an instant, in the past if it may reap.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: reaper, at most four times a grace
-- Locks: its one row, unless somebody else has it
-- Rules: R3
CREATE OR REPLACE FUNCTION turno.reaper_hold(p_grace_ms bigint, p_now timestamptz) RETURNS timestamptz
LANGUAGE plpgsql
AS $$
DECLARE
    v_grace  interval := p_grace_ms * interval '1 millisecond';
    v_reaper turno.reaper;
    v_last   timestamptz;
BEGIN
    SELECT * INTO v_reaper FROM turno.reaper;
    IF p_now - v_reaper.last_reap_at < v_grace / 4 THEN
        RETURN v_reaper.hold_from + v_grace;
    END IF;
    v_last := v_reaper.last_reap_at;
    SELECT * INTO v_reaper FROM turno.reaper FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        -- Somebody else who holds the row is deciding the same thing now, unless it is a forgotten transaction.
        RETURN CASE WHEN p_now - v_last > v_grace + greatest(interval '1 minute', 4 * v_grace) THEN p_now
                    ELSE p_now + v_grace / 4 END;
    END IF;
    UPDATE turno.reaper
    SET last_reap_at = p_now,
        hold_from = CASE WHEN p_grace_ms > 0 AND p_now - v_reaper.last_reap_at > v_grace
                              AND p_now - v_reaper.hold_from > v_grace + greatest(interval '1 minute', 4 * v_grace)
                         THEN p_now ELSE v_reaper.hold_from END
    RETURNING * INTO v_reaper;
    RETURN v_reaper.hold_from + v_grace;
END $$;
