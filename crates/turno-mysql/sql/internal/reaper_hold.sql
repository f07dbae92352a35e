-- reaper_hold: until when the reaper holds back. If nobody has reaped for longer than the grace there was an outage, and live
-- workers get one grace to renew their leases first. A hold that was served counts for a minute, so that a lone worker whose grace
-- is shorter than the time between its calls does not hold for ever.
-- Takes: the grace in ms (0: reap at once), now. Returns: an instant, in the past if it may reap.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: reaper, at most four times a grace
-- Locks: its one row, unless somebody else has it
-- Rules: R3
CREATE PROCEDURE turno.reaper_hold(IN p_grace_ms BIGINT, IN p_now BIGINT, OUT p_hold_until BIGINT)
BEGIN
    DECLARE v_grace BIGINT DEFAULT p_grace_ms * 1000;
    DECLARE v_served BIGINT DEFAULT v_grace + GREATEST(60000000, 4 * v_grace);
    DECLARE v_last, v_seen, v_from BIGINT;
    SELECT r.last_reap_at, r.hold_from INTO v_seen, v_from FROM turno.reaper r;
    IF p_now - v_seen < v_grace / 4 THEN
        SET p_hold_until = v_from + v_grace;
    ELSE
        SELECT r.last_reap_at, r.hold_from INTO v_last, v_from FROM turno.reaper r FOR UPDATE SKIP LOCKED;
        IF v_last IS NULL THEN
            -- Somebody else who holds the row is deciding the same thing now, unless it is a forgotten transaction.
            SET p_hold_until = IF(p_now - v_seen > v_served, p_now, p_now + v_grace DIV 4);
        ELSE
            SET v_from = IF(p_grace_ms > 0 AND p_now - v_last > v_grace AND p_now - v_from > v_served, p_now, v_from);
            UPDATE turno.reaper SET last_reap_at = p_now, hold_from = v_from;
            SET p_hold_until = v_from + v_grace;
        END IF;
    END IF;
END
