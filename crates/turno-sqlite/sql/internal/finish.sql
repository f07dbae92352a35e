-- finish: moves a job that ended from the hot table to the history, as the queue's retention says: the whole record, a receipt
-- without payload and result, or nothing at all.
-- Takes: :job; from end_attempt.decide :outcome, :failures, :charged, :keep; :verb (NULL: no attempt ended), :result, :error,
--        :error_bytes, :now.
-- Returns: nothing
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: job, finished_job; attempt and enqueue_key if nothing is kept
-- Locks: the database for writing
-- Rules: F7, P7, P8, S4

-- statement: record
INSERT OR REPLACE INTO turno_finished_job (id, queue, kind, outcome, payload, result, priority, attempt, failures, max_attempts,
    max_run_ms, unique_key, operation_id, verb, token_hash, charged, worker, claimed_at, started_at, run_at, first_due_at,
    created_at, finished_at, error, error_bytes, traceparent)
SELECT id, queue, kind, :outcome, CASE WHEN :keep = 'record' THEN payload END, CASE WHEN :keep = 'record' THEN :result END, priority,
    attempt, :failures, max_attempts, max_run_ms, unique_key, operation_id, :verb,
    CASE WHEN :verb IN ('complete', 'fail', 'release') THEN token END, :charged, worker, claimed_at, started_at, run_at, first_due_at,
    created_at, :now, :error, :error_bytes, traceparent
FROM turno_job WHERE id = :job;

-- statement: leave
DELETE FROM turno_job WHERE id = :job;

-- statement: forget_record
DELETE FROM turno_finished_job WHERE id = :job;

-- statement: forget_attempts
DELETE FROM turno_attempt WHERE job_id = :job;

-- statement: forget_keys
DELETE FROM turno_enqueue_key WHERE job_id = :job;
