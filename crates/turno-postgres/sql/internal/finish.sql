-- finish: moves a job that did not succeed from the hot table to the history, as the queue's retention says.
-- Takes: the job's row, locked by the caller; the outcome; the verb, error and charge of the last attempt; now.
-- Returns: nothing.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: job, finished_job; attempt and enqueue_key if nothing is kept
-- Locks: the job's row, already held
-- Rules: F7, P7, P8
CREATE OR REPLACE FUNCTION turno.finish(
    p_job turno.job, p_outcome text, p_verb text, p_error text, p_error_bytes bigint, p_failures integer, p_charged boolean,
    p_token_hash bytea, p_now timestamptz) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_queue turno.queue := turno.settings(p_job.queue);
    v_keep  boolean := CASE p_outcome WHEN 'dead' THEN v_queue.keep_dead_ms ELSE v_queue.keep_cancelled_ms END <> 0;
BEGIN
    DELETE FROM turno.job j WHERE j.id = p_job.id;
    IF NOT v_keep AND v_queue.receipts_ms = 0 THEN
        PERFORM turno.forget_rows(ARRAY[p_job.id]);
        RETURN;
    END IF;
    INSERT INTO turno.finished_job (id, queue, kind, outcome, payload, priority, attempt, failures, max_attempts, max_run_ms,
        unique_key, operation_id, verb, token_hash, charged, worker, claimed_at, started_at, run_at, first_due_at, created_at,
        finished_at, error, error_bytes, traceparent)
    VALUES (p_job.id, p_job.queue, p_job.kind, p_outcome, CASE WHEN v_keep THEN p_job.payload END, p_job.priority, p_job.attempt,
        p_failures, p_job.max_attempts, p_job.max_run_ms, p_job.unique_key, p_job.operation_id, p_verb, p_token_hash, p_charged,
        p_job.worker, p_job.claimed_at, p_job.started_at, p_job.run_at, p_job.first_due_at, p_job.created_at, p_now,
        turno.cut_error(p_error), coalesce(p_error_bytes, octet_length(p_error)), p_job.traceparent);
END $$;
