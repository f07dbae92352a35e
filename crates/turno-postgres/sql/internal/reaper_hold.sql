-- reaper_hold: until when the reaper holds back. If nobody has reaped for longer than the grace there was an outage, and live
-- workers get one grace to renew their leases first.
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
    v_grace  interval := make_interval(secs => p_grace_ms / 1000.0);
    v_reaper turno.reaper;
BEGIN
    IF p_grace_ms <= 0 THEN
        RETURN '-infinity';
    END IF;
    SELECT * INTO v_reaper FROM turno.reaper;
    IF p_now - v_reaper.last_reap_at < v_grace / 4 THEN
        RETURN v_reaper.hold_until;
    END IF;
    -- Somebody else who holds the row is deciding the same thing now.
    SELECT * INTO v_reaper FROM turno.reaper FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN p_now + v_grace / 4;
    END IF;
    UPDATE turno.reaper
    SET last_reap_at = p_now,
        hold_until = CASE WHEN p_now - v_reaper.last_reap_at > v_grace THEN p_now + v_grace ELSE v_reaper.hold_until END
    RETURNING * INTO v_reaper;
    RETURN v_reaper.hold_until;
END $$;
