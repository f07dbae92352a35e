-- release: gives one job back uncharged, in the caller's transaction. A refusal raises: roll the transaction back.
-- Takes: the proof; the delay in ms (NULL: due as before); who sends it or NULL.
-- Returns: status done or already; the job's state; when it is due again.
-- Raises: TU003 if the proof is not the current one, TU004 if the attempt was settled with another verb, TU005 if no record is left
-- Transaction: joins the caller's, or owns its own
-- Writes: job, attempt, unique_key, finished_job (if a cancel was requested)
-- Locks: the job's row
-- Rules: S1, S2, S4, S5, P2
CREATE PROCEDURE turno.release(
    IN p_job BIGINT, IN p_attempt BIGINT, IN p_token CHAR(36), IN p_delay_ms BIGINT, IN p_worker VARCHAR(255))
BEGIN
    CALL turno.settle_single('release', p_job, p_attempt, p_token, NULL, p_delay_ms, p_worker);
END
