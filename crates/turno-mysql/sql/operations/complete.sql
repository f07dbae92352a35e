-- complete: ends one attempt as succeeded, in the caller's transaction, so that the job's effects in this database and its
-- completion commit together. A refusal raises: roll the transaction back and report it by refused_record afterwards.
-- Takes: the proof; the result (JSON text or NULL); who sends it or NULL.
-- Returns: status done or already; the job's state; when it is due again.
-- Raises: TU003 if the proof is not the current one, TU004 if the attempt was settled with another verb, TU005 if no record is left
-- Transaction: joins the caller's, or owns its own
-- Writes: job, unique_key, finished_job; enqueue_key and attempt if nothing is kept
-- Locks: the job's row
-- Rules: S1, S4, S5, O2, O5
CREATE PROCEDURE turno.complete(
    IN p_job BIGINT, IN p_attempt BIGINT, IN p_token CHAR(36), IN p_result LONGTEXT, IN p_worker VARCHAR(255))
BEGIN
    CALL turno.settle_single('complete', p_job, p_attempt, p_token, p_result, NULL, p_worker);
END
