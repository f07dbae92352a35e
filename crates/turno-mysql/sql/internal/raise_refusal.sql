-- raise_refusal: turns the answer of a settle into an error, for the single forms.
-- Takes: the job, the status, the reason. Returns: nothing if the settle was accepted.
-- Raises: TU003, TU004, TU005
-- Transaction: joins the caller's, which must then roll back
-- Writes: nothing
-- Locks: none
-- Rules: S5
CREATE PROCEDURE turno.raise_refusal(IN p_job BIGINT, IN p_status VARCHAR(8), IN p_reason TEXT)
BEGIN
    DECLARE v_message TEXT DEFAULT CONCAT('job ', COALESCE(p_job, 'NULL'), ': ', p_reason);
    IF p_status = 'gone' THEN
        CALL turno.raise_error(31005, v_message);
    ELSEIF p_status = 'refused' AND p_reason LIKE 'already settled%' THEN
        CALL turno.raise_error(31004, v_message);
    ELSEIF p_status = 'refused' THEN
        CALL turno.raise_error(31003, v_message);
    END IF;
END
