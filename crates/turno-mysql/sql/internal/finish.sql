-- finish: moves a job from the hot table to the history, as the queue's retention says.
-- Takes: the job, whose row the caller has locked; the outcome; the verb, result, error and charge of the last attempt; its
--        token's hash; now.
-- Returns: nothing.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: job, unique_key, finished_job; attempt and enqueue_key if nothing is kept
-- Locks: the job's row, already held, and its unique key
-- Rules: F7, P7, P8
CREATE PROCEDURE turno.finish(
    IN p_job BIGINT, IN p_outcome VARCHAR(9), IN p_verb VARCHAR(8), IN p_result LONGTEXT, IN p_error LONGTEXT,
    IN p_error_bytes BIGINT, IN p_charged BOOLEAN, IN p_token_hash BINARY(32), IN p_now BIGINT)
BEGIN
    DECLARE v_keep, v_receipt BOOLEAN;
    DECLARE v_queue VARBINARY(200);
    DECLARE v_key VARBINARY(512);
    SELECT j.queue, j.unique_key INTO v_queue, v_key FROM turno.job j WHERE j.id = p_job FOR UPDATE;
    SELECT CASE p_outcome WHEN 'succeeded' THEN q.keep_succeeded_ms WHEN 'dead' THEN q.keep_dead_ms
                          ELSE q.keep_cancelled_ms END <> 0, q.receipts_ms <> 0
    INTO v_keep, v_receipt
    FROM turno.queue q WHERE q.queue IN (v_queue, '') ORDER BY q.queue DESC LIMIT 1;
    IF v_keep OR v_receipt THEN
        CALL turno.cut_error(p_error, p_error_bytes);
        INSERT INTO turno.finished_job (id, queue, kind, outcome, payload, result, priority, attempt, failures, max_attempts,
            max_run_ms, unique_key, operation_id, verb, token_hash, charged, worker, claimed_at, started_at, run_at,
            first_due_at, created_at, finished_at, error, error_bytes, traceparent)
        SELECT j.id, j.queue, j.kind, p_outcome, IF(v_keep, j.payload, NULL), IF(v_keep, p_result, NULL), j.priority, j.attempt,
            j.failures + p_charged, j.max_attempts, j.max_run_ms, j.unique_key, j.operation_id, p_verb, p_token_hash, p_charged,
            j.worker, j.claimed_at, j.started_at, j.run_at, j.first_due_at, j.created_at, p_now, p_error, p_error_bytes,
            j.traceparent
        FROM turno.job j WHERE j.id = p_job;
    END IF;
    DELETE FROM turno.job WHERE id = p_job;
    IF v_key IS NOT NULL THEN
        DELETE FROM turno.unique_key WHERE queue = v_queue AND `key` = v_key AND job_id = p_job;
    END IF;
    IF NOT (v_keep OR v_receipt) THEN
        CALL turno.forget_rows(JSON_ARRAY(p_job));
    END IF;
END
