-- fail: ends one attempt as failed, in the caller's transaction. A refusal raises: roll the transaction back.
-- Takes: the proof; the error; the retry delay in ms (NULL: by policy, -1: never again); who sends it or NULL.
-- Returns: status done or already; the job's state; when it is due again.
-- Raises: TU003 if the proof is not the current one, TU004 if the attempt was settled with another verb, TU005 if no record is left
-- Transaction: joins the caller's, or owns its own
-- Writes: job, attempt, unique_key, finished_job
-- Locks: the job's row
-- Rules: S1, S4, S5, F1, F3, F4, F5, F6
CREATE PROCEDURE turno.fail(
    IN p_job BIGINT, IN p_attempt BIGINT, IN p_token CHAR(36), IN p_error LONGTEXT, IN p_retry_ms BIGINT, IN p_worker VARCHAR(255))
BEGIN
    CALL turno.settle_single('fail', p_job, p_attempt, p_token, p_error, p_retry_ms, p_worker);
END
