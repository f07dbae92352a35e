-- reaper_hold: until when the reaper holds back. If nobody has reaped for longer than the grace there was an outage, and live
-- workers get one grace to renew their leases first.
-- Takes: the grace in ms (0: reap at once), now. Returns: an instant, in the past if it may reap.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: reaper, at most four times a grace
-- Locks: its one row, unless somebody else has it
-- Rules: R3
CREATE PROCEDURE turno.reaper_hold(IN p_grace_ms BIGINT, IN p_now BIGINT, OUT p_hold_until BIGINT)
BEGIN
    DECLARE v_grace BIGINT DEFAULT p_grace_ms * 1000;
    DECLARE v_last BIGINT;
    SET p_hold_until = 0;
    IF p_grace_ms > 0 THEN
        SELECT r.last_reap_at, r.hold_until INTO v_last, p_hold_until FROM turno.reaper r;
        IF p_now - v_last >= v_grace / 4 THEN
            SET v_last = NULL;
            SELECT r.last_reap_at, r.hold_until INTO v_last, p_hold_until FROM turno.reaper r FOR UPDATE SKIP LOCKED;
            IF v_last IS NULL THEN
                -- Somebody else who holds the row is deciding the same thing now.
                SET p_hold_until = p_now + v_grace DIV 4;
            ELSE
                SET p_hold_until = IF(p_now - v_last > v_grace, p_now + v_grace, p_hold_until);
                UPDATE turno.reaper SET last_reap_at = p_now, hold_until = p_hold_until;
            END IF;
        END IF;
    END IF;
END
