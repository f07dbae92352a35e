-- fail: ends an attempt as failed: a retry by the queue's back-off or after a delay of the handler's own, or dead.
-- One row from prove goes on to internal/end_attempt.sql; no row goes on to internal/settle_miss.sql.
-- Takes: :job, :attempt, :token; then for end_attempt: verb 'fail', :error (cut by the caller), :error_bytes, :delay_ms, :never.
-- Returns: prove: the job's id if the proof is the current one.
-- Raises: in a caller's transaction LeaseLost, Conflict or NotFound; otherwise refusals are answers
-- Transaction: joins the caller's, which must be able to write (BEGIN IMMEDIATE), else its own
-- Writes: job, and finished_job or attempt; the ledger if refused
-- Locks: the database for writing
-- Rules: O2, O4, O5, S1, S3, S4, F1, F3, F4, F5, F6, F7

-- statement: prove
SELECT id FROM turno_job WHERE id = :job AND state = 'running' AND attempt = :attempt AND token = :token;
